-- The source lines whose tensors hold the most memory at the peaks of the most important pools of all ranks, by kind of pool:
-- the line of the call stack, or the location of the operation. Sums add one bank (one core, or the device) of each rank.
WITH known AS (
  SELECT rank_id, pool, REGEXP_REPLACE(pool, ':.*', '') AS kind FROM runs WHERE pool IS NOT NULL AND {in_run}
), live AS (
  SELECT rank_id, pool, loc, stack, class, SUM(per_bank) AS bytes, COUNT(*) AS tensors
  FROM tensors
  WHERE at_peak AND {in_run}
  GROUP BY rank_id, pool, loc, stack, class
), named AS (
  SELECT live.rank_id AS rank_id, known.kind AS kind, COALESCE(stacks.line, live.loc) AS line, live.class AS class,
         live.bytes AS bytes, live.tensors AS tensors
  FROM live
  JOIN known ON live.rank_id = known.rank_id AND live.pool = known.pool
  LEFT JOIN stacks ON live.rank_id = stacks.rank_id AND live.stack = stacks.stack
)
SELECT kind AS pool, line, class, SUM(bytes) AS sum_per_bank, SUM(tensors) AS tensors, COUNT(DISTINCT rank_id) AS ranks
FROM named
WHERE line IS NOT NULL
GROUP BY kind, line, class
ORDER BY sum_per_bank DESC NULLS LAST, kind, line, class
LIMIT {limit}
