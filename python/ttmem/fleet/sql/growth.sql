-- What grew between two values of a label: per model and class, the highest size of a rank at the peak of its most
-- important pool. The model is the label `model`, or the run if it has no such label. Largest growth first.
WITH sides AS (
  SELECT rank_id, MAX(CASE WHEN value = {before} THEN 1 ELSE 0 END) AS is_before
  FROM labels
  WHERE key = {key} AND value IN ({before}, {after})
  GROUP BY rank_id
), known AS (
  SELECT runs.rank_id AS rank_id, COALESCE(models.value, runs.run) AS model, sides.is_before AS is_before,
         runs.pool AS pool, runs.peak_per_bank AS peak_per_bank
  FROM runs
  JOIN sides ON runs.rank_id = sides.rank_id
  LEFT JOIN (SELECT rank_id, value FROM labels WHERE key = 'model') AS models ON runs.rank_id = models.rank_id
  WHERE runs.peak_per_bank IS NOT NULL AND {in_run}
), sizes AS (
  SELECT model, is_before, 'peak' AS class, peak_per_bank AS bytes FROM known
  UNION ALL
  SELECT known.model AS model, known.is_before AS is_before, classes.class AS class, classes.per_bank AS bytes
  FROM known JOIN classes ON known.rank_id = classes.rank_id AND known.pool = classes.pool
), totals AS (
  SELECT model, class, MAX(CASE WHEN is_before = 1 THEN bytes ELSE NULL END) AS before_bytes,
         MAX(CASE WHEN is_before = 0 THEN bytes ELSE NULL END) AS after_bytes
  FROM sizes
  GROUP BY model, class
)
SELECT model, class, before_bytes AS before_per_bank, after_bytes AS after_per_bank,
       COALESCE(after_bytes, 0) - COALESCE(before_bytes, 0) AS difference_per_bank
FROM totals
WHERE model IN (SELECT model FROM known WHERE is_before = 1) AND model IN (SELECT model FROM known WHERE is_before = 0)
  AND COALESCE(after_bytes, 0) > COALESCE(before_bytes, 0)
ORDER BY COALESCE(after_bytes, 0) - COALESCE(before_bytes, 0) DESC, model, class
LIMIT {limit}
