-- All ranks, with the peak of their most important pool. Files that could not be read are not among them.
SELECT run, rank, file, host, device, pool, extent, level, peak_bytes, capacity_bytes, capacity_per_bank,
       oom_cause AS cause, verdict, growth, source, source_host, rank_index, rank_id
FROM runs
WHERE error IS NULL AND {in_run}
ORDER BY run, rank_number ASC NULLS LAST, file, rank_index, rank_id
LIMIT {limit}
