-- The memory of the most important pool of each rank over time: the highest value in each of {parts} equal parts of the
-- rank's steps.
WITH points AS (
  SELECT curves.rank_id AS rank_id, runs.run AS run, runs.rank AS rank, runs.file AS file, runs.rank_index AS rank_index,
         curves.step AS step, curves.per_bank AS bytes,
         MAX(curves.step) OVER (PARTITION BY curves.rank_id) + 1 AS steps,
         LEAD(curves.step) OVER (PARTITION BY curves.rank_id ORDER BY curves.step, curves.per_bank) AS next_step
  FROM curves JOIN runs ON curves.rank_id = runs.rank_id AND curves.pool = runs.pool
  WHERE {in_run_of_runs}
), spans AS (
  -- A value holds until the next one.
  SELECT rank_id, run, rank, file, rank_index, bytes,
         CAST(FLOOR(CAST(step * {parts} AS DOUBLE) / CAST(steps AS DOUBLE)) AS BIGINT) AS first_part,
         CASE WHEN next_step IS NULL THEN {parts} - 1
              ELSE CAST(FLOOR(CAST(next_step * {parts} AS DOUBLE) / CAST(steps AS DOUBLE)) AS BIGINT) END AS last_part
  FROM points
)
SELECT spans.run AS run, spans.rank AS rank, spans.file AS file, numbers.part AS part, MAX(spans.bytes) AS per_bank
FROM spans CROSS JOIN ({numbers}) AS numbers
WHERE spans.first_part <= numbers.part AND numbers.part <= spans.last_part
GROUP BY spans.run, spans.file, spans.rank_index, spans.rank, numbers.part
ORDER BY spans.run, spans.file, spans.rank_index, numbers.part
