package onnx

import (
	"archive/zip"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/engine/kernel/vector"
	"weir/internal/reference"
	"weir/internal/tensor"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// TestONNXsOwnTests runs the tests of single operators that come with ONNX. What passes
// stands in testdata/backend.golden, by operator, with the names of those that are
// refused and of those whose answer differs.
func TestONNXsOwnTests(t *testing.T) {
	archive, err := zip.OpenReader(reference.ONNXTests(t))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	suite := make(map[string]*operatorScore)
	for _, f := range archive.File {
		path, isModel := strings.CutSuffix(f.Name, "/model.onnx")
		if !isModel || !strings.Contains(path, "/test/data/node/") {
			continue
		}
		data := unpacked(t, &archive.Reader, f.Name)
		op := operatorOf(data)
		if suite[op] == nil {
			suite[op] = new(operatorScore)
		}
		suite[op].take(filepath.Base(path), passes(t, archive, path, data))
	}
	var b strings.Builder
	all, passed := 0, 0
	for _, op := range slices.Sorted(maps.Keys(suite)) {
		s := suite[op]
		all, passed = all+s.count, passed+s.count-len(s.refused)-len(s.differs)
		fmt.Fprintf(&b, "%s %d of %d\n", op, s.count-len(s.refused)-len(s.differs), s.count)
		for i, list := range [][]string{s.refused, s.differs} {
			for _, name := range list {
				fmt.Fprintf(&b, "\t%s %s\n", []string{"refused", "differs"}[i], name)
			}
		}
	}
	text := fmt.Sprintf("%d of %d tests pass\n%s", passed, all, b.String())
	golden := filepath.Join("testdata", "backend.golden")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text {
		t.Errorf("other tests pass than %s says; run with -rewrite and read the difference", golden)
	}
}

type operatorScore struct {
	count            int
	refused, differs []string
}

func (s *operatorScore) take(name string, err error) {
	s.count++
	var different differenceError
	switch {
	case errors.As(err, &different):
		s.differs = append(s.differs, name)
	case err != nil:
		s.refused = append(s.refused, name)
	}
}

// operatorOf names what a test is about: its node's operator, or that it is an
// operator written out in others.
func operatorOf(data []byte) string {
	p, err := parseModel(data)
	switch {
	case err != nil:
		return "(unreadable)"
	case len(p.graph.nodes) != 1:
		return "(several)"
	case p.graph.nodes[0].domain != "":
		return p.graph.nodes[0].domain + "." + p.graph.nodes[0].op
	}
	return p.graph.nodes[0].op
}

// differenceError is an answer that is not ONNX's.
type differenceError string

func (e differenceError) Error() string { return string(e) }

// passes runs one test. Its error says that the model is refused, or what differs.
func passes(t *testing.T, archive *zip.ReadCloser, path string, data []byte) (err error) {
	name := filepath.Base(path)
	defer func() {
		if err != nil {
			t.Logf("%s: %v", name, err)
		}
		if r := recover(); r != nil {
			t.Errorf("%s panics: %v", name, r)
		}
	}()
	m, err := Load(data)
	if err != nil {
		return err
	}
	read := func(kind string, spec tensor.Spec, i int) (tensor.Tensor, error) {
		part, err := parseTensor(unpacked(t, &archive.Reader, fmt.Sprintf("%s/test_data_set_0/%s_%d.pb", path, kind, i)))
		part.t.Name = spec.Name
		return part.t, err
	}
	var in []tensor.Tensor
	for i, spec := range m.Inputs() {
		x, err := read("input", spec, i)
		if err != nil {
			return err
		}
		in = append(in, x)
	}
	got, err := m.Run(in)
	if err != nil {
		return err
	}
	for i, spec := range m.Outputs() {
		want, err := read("output", spec, i)
		if err != nil {
			return err
		}
		if err := near(&got[i], &want); err != nil {
			return differenceError(fmt.Sprintf("output %q: %v", spec.Name, err))
		}
	}
	return nil
}

// near says where a tensor is farther than 1e-5, or 1e-3 where it keeps float16, of the element or of 1, from another;
// whole numbers and strings are equal.
func near(got, want *tensor.Tensor) error {
	d, err := distance(got, want)
	if err != nil || d.ulps == 0 {
		return err
	}
	at := func(t *tensor.Tensor, i int) float64 {
		switch t.Type {
		case tensor.Float32:
			return float64(tensor.Values[float32](t)[i])
		case tensor.Float16:
			return float64(vector.F16ToF32(tensor.Values[uint16](t)[i]))
		}
		return tensor.Values[float64](t)[i]
	}
	within := 1e-5
	if want.Type == tensor.Float16 {
		within = 1e-3
	}
	for i := range elements(want) {
		a, b := at(got, i), at(want, i)
		if a == b || a != a && b != b {
			continue
		}
		if !(math.Abs(a-b) <= within*max(1, math.Abs(b))) || math.IsInf(b, 0) {
			return fmt.Errorf("element %d is %g, not %g", i, a, b)
		}
	}
	return nil
}
