-- Rollouts of versions of models, as their own records say, in JSON.
CREATE TABLE weir_rollouts (
	id     text   COLLATE "C" PRIMARY KEY,
	at     bigint NOT NULL,
	record text   NOT NULL
);

CREATE INDEX weir_rollouts_by_time ON weir_rollouts (at, id);
