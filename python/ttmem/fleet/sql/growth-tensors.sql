-- What grew between two values of a label: per model, kind of pool, class and tensor, the mean of all ranks at the peak of
-- their most important pool. The model is the label `model`. Largest growth first.
WITH {known}, explained AS (
  -- The ranks whose tensors have known sizes.
  SELECT known.rank_id AS rank_id, known.model AS model, known.is_before AS is_before, known.pool AS pool, known.kind AS kind
  FROM known
  WHERE known.rank_id IN (SELECT rank_id FROM classes)
), counts AS (
  SELECT model, kind, SUM(is_before) AS before_ranks, COUNT(*) - SUM(is_before) AS after_ranks
  FROM explained
  GROUP BY model, kind
), sizes AS (
  -- Tensors without a name are the same tensor if the same operation made them.
  SELECT explained.model AS model, explained.kind AS kind, explained.is_before AS is_before, tensors.class AS class,
         COALESCE(tensors.name, tensors.op, '') AS tensor, tensors.per_bank AS bytes
  FROM tensors JOIN explained ON tensors.rank_id = explained.rank_id AND tensors.pool = explained.pool
  WHERE tensors.at_peak
), totals AS (
  SELECT model, kind, class, tensor, SUM(CASE WHEN is_before = 1 THEN bytes ELSE NULL END) AS before_bytes,
         SUM(CASE WHEN is_before = 0 THEN bytes ELSE NULL END) AS after_bytes
  FROM sizes
  GROUP BY model, kind, class, tensor
), means AS (
  SELECT totals.model AS model, totals.kind AS kind, totals.class AS class, totals.tensor AS tensor,
         CAST(FLOOR(CAST(totals.before_bytes AS DOUBLE) / CAST(counts.before_ranks AS DOUBLE)) AS BIGINT) AS before_mean,
         CAST(FLOOR(CAST(totals.after_bytes AS DOUBLE) / CAST(counts.after_ranks AS DOUBLE)) AS BIGINT) AS after_mean
  FROM totals JOIN counts ON totals.model = counts.model AND totals.kind = counts.kind
  WHERE counts.before_ranks > 0 AND counts.after_ranks > 0
)
SELECT NULLIF(means.model, '') AS model, means.kind AS pool, means.class AS class, means.tensor AS tensor,
       means.before_mean AS before_per_bank, means.after_mean AS after_per_bank,
       COALESCE(means.after_mean, 0) - COALESCE(means.before_mean, 0) AS difference_per_bank
FROM means
WHERE COALESCE(means.after_mean, 0) > COALESCE(means.before_mean, 0)
ORDER BY COALESCE(means.after_mean, 0) - COALESCE(means.before_mean, 0) DESC, means.model, means.kind, means.class,
         means.tensor
LIMIT {limit}
