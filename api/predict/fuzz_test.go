package predict

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"weir/api"
	"weir/api/edge"
	"weir/internal/tensor"
)

// FuzzNumber: what the reader takes for a number is JSON's, and has strconv's value.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-1.5e3", "0.1", "1e400", "9007199254740993", "NaN", "1.", "-", "00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, rest, ok := readDecimal([]byte(text))
		if valid := json.Valid([]byte(text)) && text != "" && (text[0] == '-' || text[0]-'0' <= 9); valid && (!ok || len(rest) > 0) && text[len(text)-1]-'0' <= 9 {
			t.Fatalf("%q is a number: %v, rest %q", text, ok, rest)
		}
		if !ok {
			return
		}
		text = text[:len(text)-len(rest)]
		if !json.Valid([]byte(text)) {
			t.Fatalf("%q is no number", text)
		}
		want, err := strconv.ParseFloat(text, 64)
		if got, fits := d.float64(); fits != (err == nil) || math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%q: %v, want %v", text, got, want)
		}
		want, err = strconv.ParseFloat(text, 32)
		if got, fits := d.float32(); fits != (err == nil) || math.Float32bits(got) != math.Float32bits(float32(want)) {
			t.Fatalf("float32 of %q: %v, want %v", text, got, want)
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if got, fits := d.whole(math.MinInt64, math.MaxInt64); fits != (err == nil) || fits && got != n {
			t.Fatalf("%q as a whole number: %v, want %v", text, got, n)
		}
	})
}

// sound wants every input to have the elements that its shape says.
func sound(t *testing.T, body []byte, inputs []tensor.Tensor) {
	t.Helper()
	for i := range inputs {
		in := &inputs[i]
		n, err := tensor.Elements(in.Shape, int64(len(body))+1)
		have := int64(len(in.Strings))
		if in.Type != tensor.Bytes {
			have = int64(len(in.Data) / in.Type.Size())
		}
		if err != nil || n != have {
			t.Fatalf("input %q of shape %v has %d elements: %v", in.Name, in.Shape, have, err)
		}
	}
}

func FuzzV1(f *testing.F) {
	for _, s := range []string{
		`{"instances":[[1,2,3,4]]}`, `{"inputs":{"f":[[1,2,3]],"s":["a"]}}`, `{"instances":[{"f":[1,2,3],"s":{"b64":"aGk="}}]}`,
		`{"signature_name":"serving_default","inputs":[NaN,-Infinity]}`, `{"instances":[],"x":{"y":[{}]}}`, `{"instances":[[[]]]}`, `{"instances":[[],[]]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, m := range []*fake{sums(), echo(everyType...), echo(everyType[6])} {
			j := &job{Exchange: &edge.Exchange{}, about: &m.about}
			r := readerV1{scanner: scanner{b: body}, job: j}
			if r.read() != nil {
				continue
			}
			sound(t, body, j.p.Inputs)
			if len(j.p.Inputs) == 0 {
				continue
			}
			text, fault := appendV1(nil, j.p.Inputs, r.rows, r.count)
			if fault != nil {
				continue
			}
			// What was written reads back the same.
			again := readerV1{scanner: scanner{b: text}, job: &job{Exchange: &edge.Exchange{}, about: &m.about}}
			if fault := again.fields(func([]byte) *api.Error { _, fault := again.skip(); return fault }); fault != nil {
				t.Fatalf("%q was written for %q: %v", text, body, fault)
			}
		}
	})
}

func FuzzV2(f *testing.F) {
	for _, s := range []string{
		`{"id":"x","inputs":[{"name":"f","shape":[1,3],"datatype":"FP32","data":[1,2,3]}],"outputs":[{"name":"f","parameters":{"classification":2,"binary_data":true}}],"parameters":{"timeout":5}}`,
		`{"inputs":[{"data":["a"],"name":"s","shape":[1],"datatype":"BYTES"},{"name":"y","shape":[1],"datatype":"BOOL","parameters":{"binary_data_size":1}}]}` + "\x01",
		`{"inputs":[{"name":"s","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":9}}]}` + "\x01\x00\x00\x00a\x00\x00\x00\x00",
	} {
		f.Add([]byte(s), "")
		f.Add([]byte(s), strconv.Itoa(len(s)-1))
		f.Add([]byte(s), strconv.Itoa(len(s)-9))
		f.Add([]byte(s), "0")
	}
	f.Fuzz(func(t *testing.T, body []byte, length string) {
		for _, m := range []*fake{sums(), echo(everyType...)} {
			j := &job{Exchange: &edge.Exchange{}, about: &m.about}
			r := readerV2{job: j, terms: new(requestTerms)}
			if r.split(body, []byte(length)) != nil {
				continue
			}
			sound(t, body, j.p.Inputs)
			j.p.Outputs = j.p.Inputs
			if text, _, fault := r.answer(&m.about); fault == nil {
				s := scanner{b: text}
				if _, fault := s.skip(); fault != nil || s.end() != nil {
					t.Fatalf("%q was written for %q: %v", text, body, fault)
				}
			}
		}
	})
}
