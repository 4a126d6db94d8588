-- Which version of a model all servers shall answer with, as JSON. One that was deleted keeps its row, so that servers see
-- that it changed.
CREATE TABLE weir_deployments (
	model    text COLLATE "C" NOT NULL PRIMARY KEY,
	record   text NOT NULL,
	revision bigint NOT NULL UNIQUE, -- of all deployments together: the last change has the highest
	deleted  bigint NOT NULL         -- 0, or when
);

-- What each server has done about it, as JSON; it stands as long as the owner's lease in weir_owners.
CREATE TABLE weir_deployments_observed (
	model  text COLLATE "C" NOT NULL,
	owner  text NOT NULL,
	record text NOT NULL,
	at     bigint NOT NULL,
	PRIMARY KEY (model, owner)
);
