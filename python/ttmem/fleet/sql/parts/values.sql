-- The values of a label.
SELECT DISTINCT value FROM labels WHERE key = {key} ORDER BY value
