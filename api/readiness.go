package api

import (
	"net/url"
	"strings"
)

// AsksModels reports whether a query of GET /ready is about models: ?deep or ?model=NAME.
func AsksModels(query url.Values) bool { return query.Has("model") || AsksDeep(query) }

// AsksDeep reports whether a query of GET /ready is about all models: ?deep, ?deep=true; not ?deep=false or ?deep=0.
func AsksDeep(query url.Values) bool {
	value := query.Get("deep")
	return query.Has("deep") && !strings.EqualFold(value, "false") && value != "0"
}
