-- Tenants that were made by the API, as JSON in the words of the configuration's list. One
-- that was deleted keeps its row, so that other servers see that it changed.
CREATE TABLE weir_tenants (
	name     TEXT    PRIMARY KEY,
	spec     TEXT    NOT NULL,
	revision INTEGER NOT NULL UNIQUE, -- of all tenants together: the last change has the highest
	created  INTEGER NOT NULL,
	changed  INTEGER NOT NULL,
	deleted  INTEGER NOT NULL         -- 0, or when
) STRICT;
