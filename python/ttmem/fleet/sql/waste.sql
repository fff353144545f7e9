-- Memory at the peaks that holds no data, on all devices: padding, bytes that no tensor explains, and bytes that a caching
-- allocator reserved but did not allocate, in the most important pool of each rank. A row without a run is the sum over all
-- runs. A column is empty if no rank has a known value.
WITH ranks AS (
  SELECT runs.run AS run,
         pools.padded_bytes - pools.logical_bytes AS padding_bytes,
         CASE WHEN pools.unexplained_per_bank < 0 THEN 0 ELSE pools.unexplained_per_bank * pools.banks END
           AS unexplained_bytes,
         CASE WHEN pools.reserved_at_peak_total < pools.peak_total THEN 0
              ELSE pools.reserved_at_peak_total - pools.peak_total END AS unallocated_bytes,
         pools.peak_total AS peak_total
  FROM runs JOIN pools ON runs.rank_id = pools.rank_id AND runs.pool = pools.pool
  WHERE {in_run_of_runs}
), sums AS (
  SELECT run, COUNT(*) AS ranks, SUM(padding_bytes) AS padding_bytes, SUM(unexplained_bytes) AS unexplained_bytes,
         SUM(unallocated_bytes) AS unallocated_bytes, SUM(peak_total) AS peak_bytes
  FROM ranks
  GROUP BY run
), rows_with_total AS (
  SELECT 0 AS place, CAST(NULL AS {text}) AS run, SUM(ranks) AS ranks, SUM(padding_bytes) AS padding_bytes,
         SUM(unexplained_bytes) AS unexplained_bytes, SUM(unallocated_bytes) AS unallocated_bytes,
         SUM(peak_bytes) AS peak_bytes
  FROM sums
  HAVING COUNT(*) > 0
  UNION ALL
  SELECT 1 AS place, run, ranks, padding_bytes, unexplained_bytes, unallocated_bytes, peak_bytes FROM sums
)
SELECT run, ranks, padding_bytes, unexplained_bytes, unallocated_bytes, peak_bytes
FROM rows_with_total
ORDER BY place, COALESCE(padding_bytes, 0) + COALESCE(unexplained_bytes, 0) + COALESCE(unallocated_bytes, 0) DESC, run
LIMIT {limit}
