package jsonbody

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
)

func TestIntegersInOtherSpellings(t *testing.T) {
	for text, want := range map[string]int64{
		"4.0": 4, "1e2": 100, "1E+2": 100, "-1.50e1": -15, "0.0": 0, "0e99999999999": 0, "1200e-2": 12, "9223372036854775807.0": 1<<63 - 1,
		"0.000000000000000000001e21": 1, "9007199254740993.0": 9007199254740993, "-9223372036854775808e0": -1 << 63,
	} {
		if got, err := Integer("x", []byte(text), -1<<63, 1<<63-1); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for text, code := range map[string]string{
		"1.5": "invalid_type", "1e-1": "invalid_type", "1.00000000000000000000001": "invalid_type", "5e-99999999999": "invalid_type",
		"1e19": "invalid_value", "1e400": "invalid_value", "1e99999999999": "invalid_value", "9223372036854775808.0": "invalid_value", "99999999999999999999": "invalid_value",
	} {
		if got, err := Integer("x", []byte(text), -1<<63, 1<<63-1); err == nil || err.Code != code {
			t.Errorf("%s: %d, %v; want %s", text, got, err, code)
		}
	}
}

// FuzzIntegers compares the reading of integers with exact arithmetic.
func FuzzIntegers(f *testing.F) {
	for _, seed := range []string{"1", "-0", "4.0", "1e2", "12.50e1", "0.001e3", "9223372036854775808", "1e-3", "5E+18", "20000000000000000000.1", "20000000000000000000e-1", "-9223372036854775808.00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) || strings.TrimSpace(text) != text || !IsNumber([]byte(text)) || len(text) > 60 {
			return
		}
		if i := strings.IndexAny(text, "eE"); i >= 0 && len(text)-i > 4 {
			return // exact arithmetic would need gigabytes
		}
		got, err := Integer("x", []byte(text), -1<<63, 1<<63-1)
		exact, ok := new(big.Rat).SetString(text)
		switch {
		case !ok:
			t.Fatalf("%q is no number to the reference", text)
		case !exact.IsInt():
			if err == nil || err.Code != "invalid_type" {
				t.Fatalf("%q is a fraction and reads as %d, %v", text, got, err)
			}
		case !exact.Num().IsInt64():
			if err == nil || err.Code != "invalid_value" {
				t.Fatalf("%q is too large and reads as %d, %v", text, got, err)
			}
		case err != nil || got != exact.Num().Int64():
			t.Fatalf("%q reads as %d, %v", text, got, err)
		}
	})
}
