-- Responses that clients may go on from. owner is the process that computes one that is not finished.
CREATE TABLE weir_responses (
	tenant   text   COLLATE "C" NOT NULL,
	id       text   COLLATE "C" NOT NULL,
	previous text   COLLATE "C" NOT NULL,
	status   text   NOT NULL,
	owner    text   NOT NULL,
	used     bigint NOT NULL,
	expires  bigint NOT NULL,
	input    bytea  NOT NULL,
	object   bytea  NOT NULL,
	PRIMARY KEY (tenant, id)
);

CREATE INDEX weir_responses_by_expiry ON weir_responses (expires);
