package state

import (
	"os/user"
	"strconv"
)

// CommandLine is who runs a command, as the audit log calls them.
func CommandLine() string {
	u, err := user.Current()
	if err != nil {
		return "command line"
	}
	return "command line, user " + strconv.QuoteToASCII(u.Username)
}
