-- The labels of runs, with the number of ranks and unreadable files that have them.
SELECT run, key, value, COUNT(*) AS ranks
FROM labels
WHERE {in_run}
GROUP BY run, key, value
ORDER BY run, key, value
LIMIT {limit}
