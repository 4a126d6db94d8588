-- Rollouts of versions of models, as their own records say, in JSON.
CREATE TABLE weir_rollouts (
	id     TEXT    PRIMARY KEY,
	at     INTEGER NOT NULL,
	record TEXT    NOT NULL
) STRICT;

CREATE INDEX weir_rollouts_by_time ON weir_rollouts (at, id);
