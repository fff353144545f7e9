-- The largest tensors at the peaks of the most important pools of all ranks. Tensors with the same kind of pool, name, class,
-- shape and type share a row. Sums add one bank (one core, or the device) of each rank.
WITH known AS (
  SELECT rank_id, pool, REGEXP_REPLACE(pool, ':.*', '') AS kind FROM runs WHERE pool IS NOT NULL AND {in_run}
)
SELECT known.kind AS pool, tensors.name AS name, tensors.class AS class, tensors.shape AS shape, tensors.dtype AS dtype,
       MAX(tensors.per_bank) AS largest_per_bank, COUNT(*) AS tensors, SUM(tensors.per_bank) AS sum_per_bank
FROM tensors JOIN known ON tensors.rank_id = known.rank_id AND tensors.pool = known.pool
WHERE tensors.at_peak
GROUP BY known.kind, tensors.name, tensors.class, tensors.shape, tensors.dtype
ORDER BY largest_per_bank DESC NULLS LAST, sum_per_bank DESC NULLS LAST, known.kind, tensors.name ASC NULLS LAST,
         tensors.class, tensors.shape ASC NULLS LAST, tensors.dtype ASC NULLS LAST
LIMIT {limit}
