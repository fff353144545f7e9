-- Memory at the peaks that holds no data, on all devices: padding, bytes that no tensor explains, and bytes that a caching
-- allocator reserved but did not allocate. A row without a run is the sum over all runs.
WITH ranks AS (
  SELECT runs.run AS run,
         runs.padded_bytes - runs.logical_bytes AS padding_bytes,
         CASE WHEN pools.unexplained_per_bank > 0 THEN pools.unexplained_per_bank * pools.banks ELSE 0 END
           AS unexplained_bytes,
         CASE WHEN pools.reserved_at_peak_total > pools.peak_total
              THEN pools.reserved_at_peak_total - pools.peak_total ELSE 0 END AS unallocated_bytes,
         pools.peak_total AS peak_total
  FROM runs JOIN pools ON runs.rank_id = pools.rank_id AND runs.pool = pools.pool
  WHERE {in_run_of_runs}
), sums AS (
  SELECT run, COUNT(*) AS ranks, SUM(COALESCE(padding_bytes, 0)) AS padding_bytes,
         SUM(COALESCE(unexplained_bytes, 0)) AS unexplained_bytes,
         SUM(COALESCE(unallocated_bytes, 0)) AS unallocated_bytes, SUM(COALESCE(peak_total, 0)) AS peak_bytes
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
ORDER BY place, padding_bytes + unexplained_bytes + unallocated_bytes DESC, run
LIMIT {limit}
