-- Runs over time, newest first: of each run and model, the rank with the highest peak. The time is the start of the first
-- recording, or the time of the export. The model is the label `model`.
WITH models AS (
  SELECT rank_id, MAX(value) AS model FROM labels WHERE key = 'model' GROUP BY rank_id
), known AS (
  SELECT runs.rank_id AS rank_id, runs.run AS run, models.model AS model, runs.rank AS rank, runs.file AS file,
         runs.rank_index AS rank_index, runs.pool AS pool, runs.peak_bytes AS peak_bytes,
         runs.capacity_bytes AS capacity_bytes, COALESCE(runs.began_ns, runs.exported_ns) AS time_ns,
         CASE WHEN runs.oom_cause IS NULL THEN 0 ELSE 1 END AS is_failed
  FROM runs LEFT JOIN models ON runs.rank_id = models.rank_id
  WHERE runs.error IS NULL AND {in_run_of_runs}
), totals AS (
  SELECT run, model, MIN(time_ns) AS time_ns, COUNT(*) AS ranks, SUM(is_failed) AS failed
  FROM known
  GROUP BY run, model
), placed AS (
  SELECT run, model, rank, file, pool, peak_bytes, capacity_bytes, rank_id,
         ROW_NUMBER() OVER (PARTITION BY run, model
                            ORDER BY peak_bytes DESC NULLS LAST, file, rank_index, rank_id) AS place
  FROM known
)
SELECT placed.run AS run, placed.model AS model, totals.time_ns AS time_ns, totals.ranks AS ranks, totals.failed AS failed,
       placed.peak_bytes AS peak_bytes, placed.capacity_bytes AS capacity_bytes, placed.pool AS pool, placed.rank AS rank,
       placed.file AS file, placed.rank_id AS rank_id
FROM placed JOIN totals ON placed.run = totals.run AND COALESCE(placed.model, '') = COALESCE(totals.model, '')
WHERE placed.place = 1 AND (placed.model IS NULL) = (totals.model IS NULL)
ORDER BY totals.time_ns DESC, placed.run, placed.model ASC NULLS FIRST
LIMIT {limit}
