-- Ranks by how close the peak of their most important pool is to its capacity, closest first.
SELECT run, rank, file, pool, level, peak_bytes, capacity_bytes, capacity_bytes - peak_bytes AS free_bytes, verdict,
       rank_id
FROM runs
WHERE capacity_bytes > 0 AND peak_bytes IS NOT NULL AND {in_run}
ORDER BY CAST(peak_bytes AS DOUBLE) / CAST(capacity_bytes AS DOUBLE) DESC, run, file, rank_index, rank_id
LIMIT {limit}
