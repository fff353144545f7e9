-- The source lines whose tensors hold the most memory at the peaks, summed over all ranks: the line of the call stack, or
-- the location of the operation.
WITH live AS (
  SELECT rank_id, loc, stack, class, SUM(per_bank) AS bytes, COUNT(*) AS tensors
  FROM tensors
  WHERE at_peak AND {in_run}
  GROUP BY rank_id, loc, stack, class
), named AS (
  SELECT live.rank_id AS rank_id, COALESCE(stacks.line, live.loc) AS line, live.class AS class, live.bytes AS bytes,
         live.tensors AS tensors
  FROM live LEFT JOIN stacks ON live.rank_id = stacks.rank_id AND live.stack = stacks.stack
)
SELECT line, class, SUM(bytes) AS sum_per_bank, SUM(tensors) AS tensors, COUNT(DISTINCT rank_id) AS ranks
FROM named
WHERE line IS NOT NULL
GROUP BY line, class
ORDER BY sum_per_bank DESC NULLS LAST, line, class
LIMIT {limit}
