package console

import (
	"strings"
)

// ShortList names the first of many.
func ShortList(names []string) string {
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " …"
	}
	return strings.Join(names, ", ")
}
