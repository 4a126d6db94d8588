package gguf

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// lookup adapts the typed accessors to one signature.
func lookup[T any](f func(*File, string) (T, bool, error)) func(*File, string) (any, bool, error) {
	return func(file *File, key string) (any, bool, error) { return f(file, key) }
}

func TestTypedAccessors(t *testing.T) {
	f, err := parseBytes(built(t, small()))
	if err != nil {
		t.Fatal(err)
	}
	uints, ints := lookup((*File).Uint), lookup((*File).Int)
	floats, bools, text := lookup((*File).Float), lookup((*File).Bool), lookup((*File).String)
	textList, floatList, intList := lookup((*File).Strings), lookup((*File).Floats), lookup((*File).Ints)
	for _, c := range []struct {
		name string
		call func(*File, string) (any, bool, error)
		key  string
		want any    // nil where an error is due
		says string // what the error says
	}{
		{"Uint", uints, "u8", uint64(200), ""},
		{"Uint", uints, "u16", uint64(60000), ""},
		{"Uint", uints, "u32", uint64(4e9), ""},
		{"Uint", uints, "u64", uint64(math.MaxUint64), ""},
		{"Uint", uints, "i8", nil, "i8 is -3"},
		{"Uint", uints, "i64", nil, "must not be negative"},
		{"Uint", uints, "f32", nil, "f32 is of type float32, must be an integer"},
		{"Uint (CVE-2024-8063)", uints, "general.architecture", nil, "of type string"},
		{"Int", ints, "i8", int64(-3), ""},
		{"Int", ints, "i16", int64(-30000), ""},
		{"Int", ints, "i32", int64(-2e9), ""},
		{"Int", ints, "i64", int64(math.MinInt64), ""},
		{"Int", ints, "u32", int64(4e9), ""},
		{"Int", ints, "u64", nil, "below 2^63"},
		{"Int", ints, "yes", nil, "of type bool"},
		{"Float", floats, "f32", 1.5, ""},
		{"Float", floats, "f64", 2.25, ""},
		{"Float", floats, "u32", nil, "u32 is of type uint32, must be a float"},
		{"Bool", bools, "yes", true, ""},
		{"Bool", bools, "no", false, ""},
		{"Bool", bools, "u8", nil, "must be a bool"},
		{"String", text, "general.architecture", "llama", ""},
		{"String", text, "empty", "", ""},
		{"String", text, "strings", nil, "strings is of type []string, must be a string"},
		{"Strings", textList, "none", []string{}, ""},
		{"Strings", textList, "empty", nil, "must be an array of strings"},
		{"Floats", floatList, "f32s", []float32{0.5, -0.25}, ""},
		{"Floats", floatList, "f64s", []float32{0.5, -0.25}, ""},
		{"Floats", floatList, "i32s", nil, "of type []int32"},
		{"Ints", intList, "u8s", []int64{1, 2}, ""},
		{"Ints", intList, "i8s", []int64{-1, 2}, ""},
		{"Ints", intList, "u16s", []int64{1, 65535}, ""},
		{"Ints", intList, "i16s", []int64{-1, 2}, ""},
		{"Ints", intList, "u32s", []int64{1, 2, 3}, ""},
		{"Ints", intList, "i32s", []int64{-1, 2, 3}, ""},
		{"Ints", intList, "u64s", []int64{1, 2}, ""},
		{"Ints", intList, "i64s", []int64{-1, 2}, ""},
		{"Ints", intList, "bools", nil, "of type []bool"},
		{"Ints", intList, "u32", nil, "u32 is of type uint32, must be an array"},
	} {
		v, ok, err := c.call(f, c.key)
		if c.want == nil {
			if !errors.Is(err, ErrValue) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s(%s): error %v, want one that says %q", c.name, c.key, err, c.says)
			}
			continue
		}
		if err != nil || !ok || !reflect.DeepEqual(v, c.want) {
			t.Errorf("%s(%s) = %v, %v, %v, want %v", c.name, c.key, v, ok, err, c.want)
		}
		if _, ok, err := c.call(f, "missing"); ok || err != nil {
			t.Errorf("%s of a missing key: %v, %v", c.name, ok, err)
		}
	}
}

func TestIntsRefusesWhatInt64CannotHold(t *testing.T) {
	b := &Builder{}
	b.Set("k", []uint64{1, math.MaxUint64})
	f, err := parseBytes(built(t, b))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Ints("k"); !errors.Is(err, ErrValue) {
		t.Errorf("error %v", err)
	}
}
