package chat

import "fmt"

// Reason is the kind of an Error.
type Reason uint8

// The reasons of errors.
const (
	Syntax  Reason = iota // the template does not parse
	Runtime               // the template cannot handle this conversation (wrong type, missing field, ...)
	Raised                // the template refused the conversation through raise_exception
	Limit                 // a bound of Options was reached
	Invalid               // the Input itself is wrong: a reserved name in Extra, nothing to continue, ...
)

// Error is an error of parsing or rendering. Runtime, Raised and Invalid errors
// are the client's fault (status 400).
type Error struct {
	Reason  Reason
	Line    int    // line of the template, from 1; 0 where there is none
	Message string // for Raised the template's own words
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return "chat template: " + e.Message
	}
	return fmt.Sprintf("chat template line %d: %s", e.Line, e.Message)
}
