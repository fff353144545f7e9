-- Files that could not be read, with the error.
SELECT run, file, source_host, error_code, error
FROM runs
WHERE error IS NOT NULL AND {in_run}
ORDER BY run, file, source_host, error
LIMIT {limit}
