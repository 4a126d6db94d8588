package console

import (
	"fmt"
	"io"
)

// UsageError is an error of the command line or of the configuration.
type UsageError struct {
	Err  error
	Hint string // the way out; a line of its own
}

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) Unwrap() error { return e.Err }

// ConfigError is an error of the configuration: the way out is to look where each value came from.
func ConfigError(err error) error {
	return &UsageError{err, "run weir config print to see every value and where it came from"}
}

// Warn is for verbs that have no log.
func Warn(w io.Writer, warnings []string) {
	for _, text := range warnings {
		fmt.Fprintln(w, "warning:", text)
	}
}
