package fleet

import (
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/router"
)

// What is written of a prediction's inputs is read as an answer's outputs: both have one form.
func TestTensorsOnTheWire(t *testing.T) {
	in := []tensor.Tensor{
		tensor.Of("f", tensor.Float32, []int64{2, 2}, []float32{1, -2.5, 3, 4}),
		tensor.Of("i", tensor.Int64, []int64{2}, []int64{-1, 1 << 40}),
		{Name: "s", Type: tensor.Bytes, Shape: []int64{2}, Strings: [][]byte{[]byte("a\x00"), {}}},
		{Name: "none", Type: tensor.Bool, Shape: []int64{0, 3}, Data: []byte{}},
	}
	body, header, err := writeInference(&router.Prediction{ID: "x", Inputs: in})
	if err != nil {
		t.Fatal(err)
	}
	answer := []byte(`{"outputs"` + string(body[indexOf(t, body, `:[{"name":"f"`):]))
	moved := len(body) - len(answer)
	h := http.Header{headerLength: {strconv.Itoa(header - moved)}}
	got, _, err := readInference(h, answer)
	if err != nil || !reflect.DeepEqual(got, in) {
		t.Errorf("%+v, %v\nwant %+v", got, err, in)
	}
}

func indexOf(t *testing.T, body []byte, text string) int {
	t.Helper()
	for i := range body {
		if string(body[i:min(len(body), i+len(text))]) == text {
			return i
		}
	}
	t.Fatalf("%q lacks %q", body, text)
	return 0
}

func TestAnswersAsJSON(t *testing.T) {
	for _, c := range []struct {
		outputs string
		want    *tensor.Tensor // nil: refused
	}{
		{`"datatype":"FP32","shape":[2,2],"data":[[1,2],[3.5,4]]`, new(tensor.Of("y", tensor.Float32, []int64{2, 2}, []float32{1, 2, 3.5, 4}))},
		{`"datatype":"INT8","shape":[2],"data":[-128,127]`, new(tensor.Of("y", tensor.Int8, []int64{2}, []int8{-128, 127}))},
		{`"datatype":"UINT16","shape":[1],"data":[65535]`, new(tensor.Of("y", tensor.Uint16, []int64{1}, []uint16{65535}))},
		{`"datatype":"BOOL","shape":[2],"data":[true,false]`, &tensor.Tensor{Name: "y", Type: tensor.Bool, Shape: []int64{2}, Data: []byte{1, 0}}},
		{`"datatype":"BYTES","shape":[1],"data":["é"]`, &tensor.Tensor{Name: "y", Type: tensor.Bytes, Shape: []int64{1}, Strings: [][]byte{[]byte("é")}}},
		{`"datatype":"INT8","shape":[1],"data":[128]`, nil},
		{`"datatype":"FP32","shape":[2],"data":[1]`, nil},
		{`"datatype":"FP32","shape":[1],"data":["1"]`, nil},
		{`"datatype":"FP32","shape":[-1],"data":[]`, nil},
		{`"datatype":"FP32","shape":[99999999999],"data":[1]`, nil},
		{`"datatype":"FP99","shape":[1],"data":[1]`, nil},
		{`"datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}`, nil},
	} {
		got, _, err := readInference(http.Header{}, []byte(`{"outputs":[{"name":"y",`+c.outputs+`}]}`))
		if c.want == nil {
			if !errors.Is(err, errAnswer) {
				t.Errorf("%s: %+v, %v", c.outputs, got, err)
			}
		} else if err != nil || !reflect.DeepEqual(got, []tensor.Tensor{*c.want}) {
			t.Errorf("%s: %+v, %v", c.outputs, got, err)
		}
	}
}

func TestRefusalsOfReplicas(t *testing.T) {
	for status, want := range map[int]error{400: inference.ErrInvalid, 409: inference.ErrSchema, 429: inference.ErrTenantQueueFull,
		404: inference.ErrUnavailable, 500: inference.ErrUnavailable} {
		for _, body := range []string{`{"error":"why it is"}`, `{"error":{"message":"why it is"}}`, `why it is`} {
			err := refusalOf(&router.Answer{Status: status, Whole: []byte(body), Replica: "r"})
			if !errors.Is(err, want) || err.Error() != want.Error()+": r: why it is" {
				t.Errorf("%d %s: %v", status, body, err)
			}
		}
	}
}

// When it is worth while to try a refused prediction again is what the replica says, where it refuses what the client asked for.
func TestRefusedPredictionsHaveTheReplicasAdvice(t *testing.T) {
	for _, tc := range []struct {
		status int
		header http.Header
		want   router.RetryAdvice
		none   bool
	}{
		{429, http.Header{"Retry-After": {"7"}, "X-Should-Retry": {"true"}}, router.RetryAdvice{After: 7 * time.Second}, false},
		{429, http.Header{"Retry-After": {"3600"}, "X-Should-Retry": {"false"}}, router.RetryAdvice{After: time.Hour, Never: true}, false},
		{429, http.Header{"X-Should-Retry": {"false"}}, router.RetryAdvice{Never: true}, false},
		{429, http.Header{}, router.RetryAdvice{After: time.Second}, false},
		{503, http.Header{"Retry-After": {"2"}}, router.RetryAdvice{After: 2 * time.Second}, false},
		{400, http.Header{"X-Should-Retry": {"false"}}, router.RetryAdvice{Never: true}, false},
		{404, http.Header{"X-Should-Retry": {"false"}}, router.RetryAdvice{}, true}, // the model's name there is the router's matter
	} {
		err := refusalOf(&router.Answer{Status: tc.status, Header: tc.header, Replica: "r"})
		said, ok := errors.AsType[*router.RetryAdviceError](err)
		if ok == tc.none || ok && said.Advice != tc.want {
			t.Errorf("%d %v: %+v, %v", tc.status, tc.header, said, err)
		}
	}
}

func FuzzReadInference(f *testing.F) {
	f.Add(`{"outputs":[{"name":"y","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}]}abcd`, 85)
	f.Add(`{"outputs":[{"name":"y","datatype":"BYTES","shape":[1],"data":["a"]}],"parameters":{"a":"b"}}`, -1)
	f.Add(`{"outputs":[{"name":"y","datatype":"BOOL","shape":[],"data":true}]}`, -1)
	f.Fuzz(func(t *testing.T, body string, header int) {
		h := http.Header{}
		if header >= 0 {
			h.Set(headerLength, strconv.Itoa(header))
		}
		list, _, err := readInference(h, []byte(body))
		if err != nil {
			return
		}
		for i := range list {
			x := &list[i]
			n, err := tensor.Elements(x.Shape, mostElements)
			if err != nil || x.Type != tensor.Bytes && n*int64(x.Type.Size()) != int64(len(x.Data)) || x.Type == tensor.Bytes && n != int64(len(x.Strings)) {
				t.Fatalf("%+v", x)
			}
		}
		_, _ = readDescription([]byte(body))
	})
}
