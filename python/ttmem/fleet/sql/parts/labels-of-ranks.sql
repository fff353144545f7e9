-- The labels of each rank.
SELECT DISTINCT rank_id, key, value FROM labels WHERE {in_run} ORDER BY rank_id, key, value
