package gbdt

import (
	"fmt"
	"math"
	"strconv"
)

// A document is what JSON and UBJSON hold: nil, bool, float64, string, []float64 for a list of numbers and booleans
// only, []any for any other list, or object. A list without elements is []float64(nil). Each of them costs at most some
// tens of bytes more than its text has.

// object holds an object's fields in the file's order. Models' objects have few fields, which are looked up once each.
type object []field

type field struct {
	key   string
	value any
}

// get gives the value of a key; nil where there is none.
func (o object) get(key string) any {
	for i := range o {
		if o[i].key == key {
			return o[i].value
		}
	}
	return nil
}

// has says whether there is a value.
func (o object) has(key string) bool { return o.get(key) != nil }

// object gives the object of a key.
func (o object) object(key string) (object, error) {
	if v, ok := o.get(key).(object); ok {
		return v, nil
	}
	return nil, wrong(key, "an object", o.get(key))
}

// text gives the string of a key.
func (o object) text(key string) (string, error) {
	if v, ok := o.get(key).(string); ok {
		return v, nil
	}
	return "", wrong(key, "a string", o.get(key))
}

// numbers gives the numbers of a key.
func (o object) numbers(key string) ([]float64, error) {
	if v, ok := o.get(key).([]float64); ok {
		return v, nil
	}
	return nil, wrong(key, "a list of numbers", o.get(key))
}

// list gives the elements of a key's list, which are not all numbers unless there are none.
func (o object) list(key string) ([]any, error) {
	switch v := o.get(key).(type) {
	case []any:
		return v, nil
	case []float64:
		if len(v) == 0 {
			return nil, nil
		}
	}
	return nil, wrong(key, "a list", o.get(key))
}

// texts gives the strings of a key's list.
func (o object) texts(key string) ([]string, error) {
	list, err := o.list(key)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s: element %d: %w", key, i, wrong("", "a string", v))
		}
		texts[i] = s
	}
	return texts, nil
}

// whole gives a whole number, which XGBoost writes as a string.
func (o object) whole(key string) (int, error) {
	switch v := o.get(key).(type) {
	case string:
		if n, err := strconv.ParseInt(v, 10, 32); err == nil {
			return int(n), nil
		}
	case float64:
		if n, ok := whole(v); ok {
			return int(n), nil
		}
	}
	return 0, wrong(key, "a whole number", o.get(key))
}

// whole gives a number as an int32 if that is what the number is.
func whole(x float64) (int32, bool) {
	if x != math.Trunc(x) || math.Abs(x) > math.MaxInt32 {
		return 0, false
	}
	return int32(x), true
}

// wrong says that a value is not what it is to be.
func wrong(key, want string, v any) error {
	if v == nil {
		return fmt.Errorf("%q is missing", key)
	}
	var got string
	switch v := v.(type) {
	case bool:
		got = strconv.FormatBool(v)
	case float64:
		got = strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		got = strconv.Quote(shorten(v))
	case []float64, []any:
		got = "a list"
	case object:
		got = "an object"
	}
	if key == "" {
		return fmt.Errorf("%s is not %s", got, want)
	}
	return fmt.Errorf("%q is %s, not %s", key, got, want)
}

// shorten keeps an error message readable.
func shorten(s string) string {
	if len(s) <= 60 {
		return s
	}
	return s[:60] + "…"
}

// listBuilder collects a list's elements, as numbers as long as they are that.
type listBuilder struct {
	numbers []float64
	mixed   []any
}

func (l *listBuilder) add(v any) {
	if l.mixed == nil {
		if x, ok := v.(float64); ok {
			l.number(x)
			return
		}
		if b, ok := v.(bool); ok {
			l.number(truth(b))
			return
		}
		l.mixed = make([]any, 0, len(l.numbers)+1)
		for _, x := range l.numbers {
			l.mixed = append(l.mixed, x)
		}
		l.numbers = nil
	}
	l.mixed = append(l.mixed, v)
}

// number adds a number; mixed is nil.
func (l *listBuilder) number(x float64) { l.numbers = append(l.numbers, x) }

func (l *listBuilder) list() any {
	if l.mixed != nil {
		return l.mixed
	}
	return l.numbers
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
