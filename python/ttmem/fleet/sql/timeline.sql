-- The memory of the most important pool of each rank over time: the highest value in each of {parts} equal parts of the
-- rank's steps. The limit is the number of ranks.
WITH known AS (
  SELECT rank_id, run, rank, file, rank_index, pool
  FROM runs
  WHERE pool IS NOT NULL AND {in_run}
  ORDER BY run, file, rank_index, rank_id
  LIMIT {limit}
), points AS (
  SELECT curves.rank_id AS rank_id, curves.position AS position, curves.step AS step, curves.per_bank AS bytes
  FROM curves JOIN known ON curves.rank_id = known.rank_id AND curves.pool = known.pool
), lengths AS (
  SELECT rank_id, MAX(step) + 1 AS steps FROM points GROUP BY rank_id
), following AS (
  -- Tables of earlier versions have no positions.
  SELECT points.rank_id AS rank_id, points.step AS step, points.bytes AS bytes, lengths.steps AS steps,
         LEAD(points.step) OVER (PARTITION BY points.rank_id
                                 ORDER BY points.step, points.position, points.bytes) AS next_step
  FROM points JOIN lengths ON points.rank_id = lengths.rank_id
), spans AS (
  -- A value holds until the next one, and at least for a moment.
  SELECT rank_id, bytes,
         CAST(FLOOR(CAST(step * {parts} AS DOUBLE) / CAST(steps AS DOUBLE)) AS BIGINT) AS first_part,
         CASE WHEN next_step IS NULL THEN {parts} - 1
              ELSE CAST(CEIL(CAST(next_step * {parts} AS DOUBLE) / CAST(steps AS DOUBLE)) AS BIGINT) - 1
              END AS end_part
  FROM following
), reduced AS (
  -- Most values hold for less than a part, and few of them have to be compared with each part.
  SELECT rank_id, first_part, CASE WHEN end_part < first_part THEN first_part ELSE end_part END AS last_part,
         MAX(bytes) AS bytes
  FROM spans
  GROUP BY rank_id, first_part, CASE WHEN end_part < first_part THEN first_part ELSE end_part END
), filled AS (
  SELECT reduced.rank_id AS rank_id, numbers.part AS part, MAX(reduced.bytes) AS bytes
  FROM reduced CROSS JOIN ({numbers}) AS numbers
  WHERE reduced.first_part <= numbers.part AND numbers.part <= reduced.last_part
  GROUP BY reduced.rank_id, numbers.part
)
SELECT known.run AS run, known.rank AS rank, known.file AS file, filled.part AS part, filled.bytes AS per_bank,
       known.rank_id AS rank_id
FROM filled JOIN known ON filled.rank_id = known.rank_id
ORDER BY known.run, known.file, known.rank_index, known.rank_id, filled.part
