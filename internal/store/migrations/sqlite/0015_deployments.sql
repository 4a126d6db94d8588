-- Which version of a model all servers shall answer with, as JSON. One that was deleted keeps its row, so that servers see
-- that it changed.
CREATE TABLE weir_deployments (
	model    TEXT NOT NULL PRIMARY KEY,
	record   TEXT NOT NULL,
	revision INTEGER NOT NULL UNIQUE, -- of all deployments together: the last change has the highest
	deleted  INTEGER NOT NULL         -- 0, or when
) STRICT;

-- What each server has done about it, as JSON; it stands as long as the owner's lease in weir_owners.
CREATE TABLE weir_deployments_observed (
	model  TEXT NOT NULL,
	owner  TEXT NOT NULL,
	record TEXT NOT NULL,
	at     INTEGER NOT NULL,
	PRIMARY KEY (model, owner)
) STRICT;
