package schema

import (
	"errors"
	"fmt"
	"slices"

	"weir/tokenizer/grammar/regex"
)

// findings are what a document has that is not enforced: an error, or where the options are lenient a line of the report.
type findings struct {
	options Options
	report  Report
	// loose lets more through rather than less: it asks whether schemas exclude each other, where a keyword that is not enforced, or one
	// that validators read as a remark (format), must not count.
	loose bool
}

// refuse is the error of a keyword that cannot be enforced; lenient options note it instead and goes on.
func (f *findings) refuse(s *value, keyword, format string, args ...any) error {
	if f.loose {
		return nil
	}
	return f.orIgnore(wrong(s, keyword, format, args...))
}

// orIgnore notes an error of a keyword as ignored where the options are lenient, and else returns it. A pattern that is
// none in any dialect is a mistake of its author, which should not be ignored.
func (f *findings) orIgnore(err error) error {
	var e *Error
	if f.options.Strict || !errors.As(err, &e) || e.Keyword == "" || errors.Is(err, regex.ErrPattern) {
		return err
	}
	f.ignore(e)
	return nil
}

// ignore notes what is not enforced, once.
func (f *findings) ignore(e *Error) {
	note := Ignored{Pointer: e.Pointer, Keyword: e.Keyword, Reason: e.Reason}
	if !slices.ContainsFunc(f.report.Ignored, func(i Ignored) bool { return i.Pointer == note.Pointer }) {
		f.report.Ignored = append(f.report.Ignored, note)
	}
}

// unlessLoose passes an error of a keyword on where it is not to be ignored.
func (f *findings) unlessLoose(err error) error {
	if f.loose {
		return nil
	}
	return f.orIgnore(err)
}

// wrong is the error of a keyword whose value makes no sense.
func wrong(s *value, keyword, format string, args ...any) error {
	pointer := s.pointer()
	if keyword != "" {
		pointer += "/" + keyword
	}
	return &Error{Pointer: pointer, Keyword: keyword, Reason: fmt.Sprintf(format, args...)}
}
