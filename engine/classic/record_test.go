package classic

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/defaultmodel"
	"weir/internal/reference"
	"weir/internal/tensor"
)

// What is recorded of a model passes as its golden rows without any tolerance: NaN,
// infinities, strings and whole numbers included.
func TestRecordedRowsComeOutAgain(t *testing.T) {
	reference.Slow(t)
	files, err := filepath.Glob("../onnx/testdata/*.onnx")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	recorded := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v, err := Load(data, "m", Options{})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		rows, err := v.Sample(9, 1)
		if err != nil {
			if !strings.Contains(err.Error(), "--rows") {
				t.Errorf("%s: %v", file, err)
			}
			if rows = v.sample(nil); rows == nil {
				continue
			}
		}
		if _, err := v.Record(rows, 0); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		recorded++
	}
	if recorded < len(files)/2 {
		t.Errorf("%d of %d models were recorded", recorded, len(files))
	}
	t.Logf("%d of %d models were recorded", recorded, len(files))
}

func TestGoldenRowsOfEveryType(t *testing.T) {
	file := []byte(`{"inputs": [{"name": "x", "datatype": "UINT64", "shape": [2], "data": [18446744073709551615, 0]}], "outputs": [`)
	want := []tensor.Tensor{
		tensor.Of("u8", tensor.Uint8, []int64{2}, []uint8{0, 255}),
		tensor.Of("u16", tensor.Uint16, []int64{2}, []uint16{0, 65535}),
		tensor.Of("u32", tensor.Uint32, []int64{2}, []uint32{0, 1<<32 - 1}),
		tensor.Of("i8", tensor.Int8, []int64{2, 1}, []int8{-128, 127}),
		tensor.Of("i64", tensor.Int64, []int64{1, 2}, []int64{-1 << 63, 1<<63 - 1}),
		tensor.Of("b", tensor.Bool, []int64{2}, []uint8{0, 1}),
		{Name: "s", Type: tensor.Bytes, Shape: []int64{2}, Strings: [][]byte{[]byte("é\n\""), {}}},
	}
	for i := range want {
		var err error
		if i > 0 {
			file = append(file, ',')
		}
		if file, err = appendTensor(file, &want[i]); err != nil {
			t.Fatal(err)
		}
	}
	g, err := ReadGolden(append(file, "]}"...))
	if err != nil {
		t.Fatal(err)
	}
	if !same(g.Outputs, want) {
		t.Errorf("%+v, want %+v", g.Outputs, want)
	}
	for i := range want {
		if err := g.compare(&g.Outputs[i], &want[i]); err != nil {
			t.Error(err)
		}
		other := want[(i+1)%len(want)]
		other.Shape = want[i].Shape
		if err := g.compare(&other, &want[i]); err == nil {
			t.Errorf("%v passes as %v", &other, &want[i])
		}
	}
	for _, bad := range []tensor.Tensor{
		{Name: "h", Type: tensor.Float16, Shape: []int64{1}, Data: []byte{0, 0}},
		{Name: "s", Type: tensor.Bytes, Shape: []int64{1}, Strings: [][]byte{{0xff}}},
	} {
		if _, err := appendTensor(nil, &bad); err == nil {
			t.Errorf("%v was written", &bad)
		}
	}
}

// An empty file of golden rows, as a command that failed leaves it behind, guards nothing.
func TestEmptyGoldenRowsAreRefused(t *testing.T) {
	folder := t.TempDir()
	model, _ := defaultmodel.Iris()
	write(t, filepath.Join(folder, "iris.json"), model)
	write(t, filepath.Join(folder, "iris.golden.json"), "")
	s := Source{Name: "iris", Path: filepath.Join(folder, "iris.json")}
	if _, err := s.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "empty file") {
		t.Errorf("%v", err)
	}
}
