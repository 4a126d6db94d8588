-- Which arm of a rollout gave an answer, while the rollout is under way. The key is a digest of the answer's id and of
-- whose it is; home is the record in weir_rollouts that what is told of the answer counts in.
CREATE TABLE weir_rollout_answers (
	key  TEXT NOT NULL PRIMARY KEY,
	home TEXT NOT NULL,
	arm  INTEGER NOT NULL,
	step INTEGER NOT NULL,
	at   INTEGER NOT NULL
) STRICT;
CREATE INDEX weir_rollout_answers_home ON weir_rollout_answers (home);
CREATE INDEX weir_rollout_answers_at ON weir_rollout_answers (at);

-- What was told of an answer, and which value its home has counted; at is that of the answer.
CREATE TABLE weir_rollout_outcomes (
	answer  TEXT NOT NULL,
	kind    INTEGER NOT NULL,
	home    TEXT NOT NULL,
	value   REAL NOT NULL,
	counted REAL,
	at      INTEGER NOT NULL,
	PRIMARY KEY (answer, kind)
) STRICT;
CREATE INDEX weir_rollout_outcomes_new ON weir_rollout_outcomes (home) WHERE counted IS NULL OR counted <> value;
CREATE INDEX weir_rollout_outcomes_at ON weir_rollout_outcomes (at);
