-- The ranks on both sides of a comparison: those with one of two values of a label and a known peak. The model is the label
-- `model`, or empty. Devices of a kind share a name up to the colon: `cuda:0`, `cuda:1`.
sides AS (
  SELECT rank_id, MAX(CASE WHEN value = {before} THEN 1 ELSE 0 END) AS is_before
  FROM labels
  WHERE key = {key} AND value IN ({before}, {after})
  GROUP BY rank_id
), models AS (
  SELECT rank_id, MAX(value) AS model FROM labels WHERE key = 'model' GROUP BY rank_id
), known AS (
  SELECT runs.rank_id AS rank_id, COALESCE(models.model, '') AS model, sides.is_before AS is_before,
         runs.pool AS pool, REGEXP_REPLACE(runs.pool, ':.*', '') AS kind, runs.peak_per_bank AS peak_per_bank
  FROM runs
  JOIN sides ON runs.rank_id = sides.rank_id
  LEFT JOIN models ON runs.rank_id = models.rank_id
  WHERE runs.peak_per_bank IS NOT NULL AND {in_run_of_runs}
)
