-- What grew between two values of a label: per model, kind of pool and class, the mean of all ranks at the peak of their most
-- important pool. The model is the label `model`. Largest growth first.
WITH {known}, sizes AS (
  SELECT rank_id, model, kind, is_before, 0 AS is_class, 'peak' AS class, peak_per_bank AS bytes FROM known
  UNION ALL
  SELECT known.rank_id AS rank_id, known.model AS model, known.kind AS kind, known.is_before AS is_before, 1 AS is_class,
         classes.class AS class, classes.per_bank AS bytes
  FROM known JOIN classes ON known.rank_id = classes.rank_id AND known.pool = classes.pool
), counts AS (
  -- A rank with known classes has no tensors of the other classes.
  SELECT model, kind, is_class, COUNT(DISTINCT CASE WHEN is_before = 1 THEN rank_id ELSE NULL END) AS before_ranks,
         COUNT(DISTINCT CASE WHEN is_before = 0 THEN rank_id ELSE NULL END) AS after_ranks
  FROM sizes
  GROUP BY model, kind, is_class
), totals AS (
  SELECT model, kind, is_class, class, SUM(CASE WHEN is_before = 1 THEN bytes ELSE NULL END) AS before_bytes,
         SUM(CASE WHEN is_before = 0 THEN bytes ELSE NULL END) AS after_bytes
  FROM sizes
  GROUP BY model, kind, is_class, class
), means AS (
  SELECT totals.model AS model, totals.kind AS kind, totals.class AS class,
         CAST(FLOOR(CAST(totals.before_bytes AS DOUBLE) / CAST(counts.before_ranks AS DOUBLE)) AS BIGINT) AS before_mean,
         CAST(FLOOR(CAST(totals.after_bytes AS DOUBLE) / CAST(counts.after_ranks AS DOUBLE)) AS BIGINT) AS after_mean
  FROM totals
  JOIN counts ON totals.model = counts.model AND totals.kind = counts.kind AND totals.is_class = counts.is_class
  WHERE counts.before_ranks > 0 AND counts.after_ranks > 0
)
SELECT NULLIF(means.model, '') AS model, means.kind AS pool, means.class AS class, means.before_mean AS before_per_bank,
       means.after_mean AS after_per_bank,
       COALESCE(means.after_mean, 0) - COALESCE(means.before_mean, 0) AS difference_per_bank
FROM means
WHERE COALESCE(means.after_mean, 0) > COALESCE(means.before_mean, 0)
ORDER BY COALESCE(means.after_mean, 0) - COALESCE(means.before_mean, 0) DESC, means.model, means.kind, means.class
LIMIT {limit}
