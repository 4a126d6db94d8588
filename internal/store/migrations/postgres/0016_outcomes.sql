-- Which arm of a rollout gave an answer, while the rollout is under way. The key is a digest of the answer's id and of
-- whose it is; home is the record in weir_rollouts that what is told of the answer counts in.
CREATE TABLE weir_rollout_answers (
	key  text NOT NULL PRIMARY KEY,
	home text NOT NULL,
	arm  bigint NOT NULL,
	step bigint NOT NULL,
	at   bigint NOT NULL
);
CREATE INDEX weir_rollout_answers_home ON weir_rollout_answers (home);
CREATE INDEX weir_rollout_answers_at ON weir_rollout_answers (at);

-- What was told of an answer, and which value its home has counted; at is that of the answer.
CREATE TABLE weir_rollout_outcomes (
	answer  text NOT NULL,
	kind    bigint NOT NULL,
	home    text NOT NULL,
	value   double precision NOT NULL,
	counted double precision,
	at      bigint NOT NULL,
	PRIMARY KEY (answer, kind)
);
CREATE INDEX weir_rollout_outcomes_new ON weir_rollout_outcomes (home) WHERE counted IS NULL OR counted <> value;
CREATE INDEX weir_rollout_outcomes_at ON weir_rollout_outcomes (at);
