package jsonbody

import "weir/api"

// The typed readers below return false as ok when the field is absent or null, or when its
// value is refused. The first refusal is kept in *fault and later ones are
// dropped, so that a caller may read all fields and look once.

// Bool reads true or false.
func (o *Object) Bool(name string, fault **api.Error) (v, ok bool) {
	raw, ok := o.Take(name)
	if !ok {
		return false, false
	}
	switch string(raw) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	Keep(fault, WrongType(Join(o.Path, name), "true or false", raw))
	return false, false
}

// Flag is Bool, or otherwise where the field is not given.
func (o *Object) Flag(name string, otherwise bool, fault **api.Error) bool {
	if v, ok := o.Bool(name, fault); ok {
		return v
	}
	return otherwise
}

// Text reads a string.
func (o *Object) Text(name string, fault **api.Error) (string, bool) {
	raw, ok := o.Take(name)
	if !ok {
		return "", false
	}
	s, err := String(Join(o.Path, name), raw)
	Keep(fault, err)
	return s, err == nil
}

// Integer reads an integer in [low, high].
func (o *Object) Integer(name string, low, high int64, fault **api.Error) (int64, bool) {
	raw, ok := o.Take(name)
	if !ok {
		return 0, false
	}
	n, err := Integer(Join(o.Path, name), raw, low, high)
	Keep(fault, err)
	return n, err == nil
}

// Count is Integer, or otherwise where the field is not given.
func (o *Object) Count(name string, low, high, otherwise int, fault **api.Error) int {
	if n, ok := o.Integer(name, int64(low), int64(high), fault); ok {
		return int(n)
	}
	return otherwise
}

// Number reads a number of an interval, or is otherwise where the field is not given.
func (o *Object) Number(name string, iv Interval, otherwise float32, fault **api.Error) float32 {
	raw, ok := o.Take(name)
	if !ok {
		return otherwise
	}
	v, err := Number(Join(o.Path, name), raw, iv)
	Keep(fault, err)
	return float32(v)
}

// Need is Text of a field that must be given.
func (o *Object) Need(name string, fault **api.Error) string {
	text, ok := o.Text(name, fault)
	if !ok {
		Keep(fault, Missing(Join(o.Path, name), "a string"))
	}
	return text
}

// Inner takes apart the object that a field holds.
func (o *Object) Inner(name string, fault **api.Error) (*Object, bool) {
	raw, ok := o.Take(name)
	if !ok {
		return nil, false
	}
	inner, err := o.Parse(Join(o.Path, name), raw, MaxFields)
	Keep(fault, err)
	return inner, err == nil
}
