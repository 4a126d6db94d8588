package configs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/unit"
	"weir/scheduler/quota"
	"weir/telemetry/slo"
)

// Setting is one value of the configuration under all its names. Key is its
// path in the file ("scheduler.max_num_seqs"), Flag its option on the command
// line ("max-num-seqs").
type Setting struct {
	Key    string
	Flag   string
	Usage  string // one line, lower case, for help and the example file
	Secret bool   // never printed

	expands func(text string) []ModelSetting // the settings that it stands for; nil: itself

	binding
}

// Env is the setting's environment variable: WEIR_MAX_NUM_SEQS.
func (s *Setting) Env() string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(s.Flag, "-", "_"))
}

// Accepts says what values the setting takes, as a phrase.
func (s *Setting) Accepts() string { return s.accepts }

// Value is the current value as text; secrets are hidden.
func (s *Setting) Value() string {
	text := s.show()
	if s.Secret && text != "" {
		return "(hidden)"
	}
	return text
}

// Check says why the setting would not take a value. It is meant for a table
// of its own (New): it sets the value there.
func (s *Setting) Check(value string) error {
	if err := s.set(value); err != nil {
		return fmt.Errorf("%w; it takes %s", err, s.accepts)
	}
	return nil
}

// take sets items from a place, one after the other.
func (s *Setting) take(where string, items []string) error {
	for _, item := range items {
		if err := s.set(item); err != nil {
			return &ValueError{Where: where, Setting: s, Value: item, Reason: err.Error()}
		}
	}
	return nil
}

// Choices are the values that the setting takes; nil where they cannot be listed.
func (s *Setting) Choices() []string { return s.choices }

// Kind is a word for the setting's values in help texts.
func (s *Setting) Kind() string {
	switch s.kind {
	case integer:
		return "number"
	case boolean:
		return "bool"
	case amount:
		return s.unit
	case decimal:
		return "decimal"
	case text, list:
	}
	return "text"
}

// IsBool reports whether the flag may stand without a value.
func (s *Setting) IsBool() bool { return s.kind == boolean }

// IsList reports whether the flag may be repeated.
func (s *Setting) IsList() bool { return s.kind == list }

// kind decides which YAML scalars a setting takes.
type kind uint8

const (
	integer kind = iota // a YAML integer
	boolean             // true or false
	text                // a YAML string
	amount              // an integer, or a string with a unit
	decimal             // a YAML number, or a string
	list                // one string or a sequence of strings
)

// binding ties a setting to its field in the tree: set parses text into it,
// show prints it in a form that set accepts.
type binding struct {
	kind    kind
	accepts string
	choices []string // where these are all that it accepts
	unit    string   // of an amount: "bytes" or "duration"
	set     func(text string) error
	show    func() string
	clear   func() // empties a list
}

// invalidValue is what set returns; the caller adds the name, the value and what
// would be accepted.
type invalidValue string

func (r invalidValue) Error() string { return string(r) }

func bindInt[T int | int64](p *T, low, high T, note string) binding {
	accepts := fmt.Sprintf("a whole number from %d to %d", low, high)
	if high == math.MaxInt32 {
		accepts = fmt.Sprintf("a whole number of at least %d", low)
	}
	return binding{
		kind: integer, accepts: accepts + note,
		set: func(s string) error {
			n, err := strconv.ParseInt(s, 10, 64)
			switch {
			case errors.Is(err, strconv.ErrRange):
				return invalidValue("is out of range")
			case err != nil:
				return invalidValue("is not a whole number")
			case n < int64(low) || n > int64(high):
				return invalidValue("is out of range")
			}
			*p = T(n)
			return nil
		},
		show: func() string { return strconv.FormatInt(int64(*p), 10) },
	}
}

// bindLimit takes a limit of requests or tokens.
func bindLimit(p *int64, high int64) binding { return bindInt(p, 0, high, ", 0 being no limit") }

// bindMoney takes an amount of the operator's currency.
func bindMoney(p *quota.Money) binding {
	return binding{
		kind: decimal, accepts: "an amount with at most six digits after the point, such as 12.50",
		set: func(s string) error {
			m, err := quota.ParseMoney(s)
			if err != nil {
				return invalidValue("is no amount")
			}
			*p = m
			return nil
		},
		show: func() string { return p.String() },
	}
}

// bindMultiple takes multiples of step, itself included.
func bindMultiple(p *int, step, high int) binding {
	b := bindInt(p, step, high, "")
	set := b.set
	b.accepts = fmt.Sprintf("a multiple of %d from %d to %d", step, step, high)
	b.set = func(s string) error {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && n%int64(step) != 0 {
			return invalidValue(fmt.Sprintf("is not a multiple of %d", step))
		}
		return set(s)
	}
	return b
}

func bindBool(p *bool) binding {
	return binding{
		kind: boolean, accepts: "true or false",
		set: func(s string) error {
			switch s {
			case "true":
				*p = true
			case "false":
				*p = false
			default:
				return invalidValue("is neither true nor false")
			}
			return nil
		},
		show: func() string { return strconv.FormatBool(*p) },
	}
}

func bindText[T ~string](p *T, accepts string, ok func(string) bool) binding {
	return binding{
		kind: text, accepts: accepts,
		set: func(s string) error {
			if !ok(s) {
				return invalidValue("is not accepted")
			}
			*p = T(s)
			return nil
		},
		show: func() string { return string(*p) },
	}
}

func bindChoice[T ~string](p *T, choices []string) binding {
	b := bindText(p, "one of "+strings.Join(choices, ", "), func(s string) bool { return slices.Contains(choices, s) })
	b.choices = choices
	return b
}

// bindWord takes the words of a type that is not text.
func bindWord[T any](p *T, words []string, parse func(word string) (T, bool), name func(T) string) binding {
	return binding{
		kind: text, accepts: "one of " + strings.Join(words, ", "),
		set: func(s string) error {
			v, ok := parse(s)
			if !ok {
				return invalidValue("is not accepted")
			}
			*p = v
			return nil
		},
		show: func() string { return name(*p) },
	}
}

// bindList appends one item per set; the caller empties the list first where a
// stronger source replaces a weaker one.
func bindList(p *[]string, item string) binding {
	return binding{
		kind: list, accepts: item + ", or a list of them",
		set: func(s string) error {
			if s == "" {
				return invalidValue("is empty")
			}
			*p = append(*p, s)
			return nil
		},
		show:  func() string { return strings.Join(*p, ",") },
		clear: func() { *p = nil },
	}
}

// bindNames is bindList for items that must look right.
func bindNames(p *[]string, item string, ok func(string) bool) binding {
	b := bindList(p, item)
	set := b.set
	b.set = func(s string) error {
		if s != "" && !ok(s) {
			return invalidValue("is not accepted")
		}
		return set(s)
	}
	return b
}

// bindWords takes some of the words, in place of those that were there.
func bindWords(p *[]string, words []string) binding {
	own := false
	b := bindNames(p, "one of "+strings.Join(words, ", "), func(s string) bool { return slices.Contains(words, s) })
	set := b.set
	b.set = func(s string) error {
		if !own {
			*p, own = nil, true
		}
		return set(s)
	}
	return b
}

func bindBytes(p *int64, note string) binding {
	return binding{
		kind: amount, unit: "bytes", accepts: "a number of bytes, or one with KiB, MiB, GiB or TiB" + note,
		set: func(s string) error {
			n, err := unit.ParseBytes(s)
			switch {
			case errors.Is(err, unit.ErrRange):
				return invalidValue("is out of range")
			case err != nil:
				return invalidValue("is not a number of bytes")
			}
			*p = n
			return nil
		},
		show: func() string { return unit.ExactBytes(*p) },
	}
}

func bindDuration(p *time.Duration, low, high time.Duration) binding {
	return binding{
		kind: amount, unit: "duration",
		accepts: fmt.Sprintf("seconds, or a duration such as 1m30s, from %s to %s", unit.Duration(low), unit.Duration(high)),
		set: func(s string) error {
			d, err := unit.ParseDuration(s)
			switch {
			case err != nil:
				return invalidValue("is not a duration")
			case d < low || d > high:
				return invalidValue("is out of range")
			}
			*p = d
			return nil
		},
		show: func() string { return unit.Duration(*p) },
	}
}

// bindMilliseconds is for settings whose name ends with the unit.
func bindMilliseconds(p *time.Duration, low, high int) binding {
	var n int
	b := bindInt(&n, low, high, ", in milliseconds")
	set := b.set
	b.set = func(s string) error {
		err := set(s)
		if err == nil {
			*p = time.Duration(n) * time.Millisecond
		}
		return err
	}
	b.show = func() string { return strconv.FormatInt(p.Milliseconds(), 10) }
	return b
}

func bindRatio(p *float64) binding {
	return binding{
		kind: decimal, accepts: "a number from 0 to 1",
		set: func(s string) error {
			f, err := strconv.ParseFloat(s, 64)
			switch {
			case err != nil:
				return invalidValue("is not a number")
			case math.IsNaN(f) || f < 0 || f > 1:
				return invalidValue("is out of range")
			}
			*p = f
			return nil
		},
		show: func() string { return strconv.FormatFloat(*p, 'g', -1, 64) },
	}
}

// bindPercent is for shares; YAML reads 99.9% as text.
func bindPercent(p *float64) binding {
	return binding{
		kind: amount, accepts: "a percentage such as 99.9%, above 0 and below 100",
		set: func(s string) error {
			f, err := strconv.ParseFloat(strings.TrimSuffix(s, "%")+"e-2", 64) // exact where dividing by 100 is not
			switch {
			case err != nil:
				return invalidValue("is not a percentage")
			case f <= 0 || f >= 1:
				return invalidValue("is out of range")
			}
			*p = f
			return nil
		},
		show: func() string { return slo.Percent(*p) },
	}
}

func anyText(string) bool { return true }
