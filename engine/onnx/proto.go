package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"weir/internal/tensor"
)

// Limits of what a file may hold. A file within them takes memory in proportion to
// its bytes.
const (
	maxBytes      = 2 << 30 // protobuf's own limit of a message
	maxNodes      = 1 << 16
	maxTensors    = 1 << 16
	maxAttributes = 1 << 10 // of a node
	maxNames      = 1 << 12 // of a node's inputs or outputs
	maxRank       = 16
	maxOpsets     = 64
	maxNesting    = 16 // graphs within graphs, and types within types
)

// modelProto is ModelProto: the fields that matter here.
type modelProto struct {
	opsets    map[string]int64
	graph     graphProto
	functions map[functionName]*functionProto
	others    []string // parts of the file that this evaluator does not know
}

type graphProto struct {
	depth           int  // how many graphs it stands in
	sparse          bool // it has sparse initializers
	nodes           []nodeProto
	initializers    []namedTensor
	inputs, outputs []valueProto
	infos           map[string]valueProto
}

type nodeProto struct {
	name, domain, op, overload string
	inputs, outputs            []string
	attributes                 map[string]attribute
}

// attribute is one of a node's: the field that is set counts.
type attribute struct {
	f       float32
	i       int64
	s       []byte
	floats  []float32
	ints    []int64
	strings [][]byte
	tensor  *tensor.Tensor
	graph   *graphProto
	value   *valueProto // a type
	refers  string      // the attribute of the function that this one is
	foreign bool        // it holds what this evaluator does not know: several tensors, graphs or types
}

type namedTensor struct {
	name string
	t    tensor.Tensor
}

// valueProto is ValueInfoProto, or a TypeProto alone.
type valueProto struct {
	name   string
	form   form
	typ    tensor.Type
	shape  []int64 // tensor.Any where a size is symbolic
	ranked bool    // shape is known
	other  string  // what the value is where it is none of tensors
}

func parseModel(data []byte) (*modelProto, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("the file has %d bytes; the limit is %d", len(data), maxBytes)
	}
	p := &modelProto{opsets: make(map[string]int64)}
	var graph []byte
	m := read("ModelProto", data)
	for m.next() {
		switch m.number {
		case 7:
			graph = m.content()
		case 8:
			if err := p.opset(m.content()); err != nil {
				return nil, err
			}
		case 25:
			if err := p.function(m.content()); err != nil {
				return nil, err
			}
		}
	}
	if m.err != nil {
		return nil, m.err
	}
	if graph == nil {
		return nil, errors.New("the file has no graph: this is no ONNX model")
	}
	err := p.graph.parse(graph)
	if p.graph.sparse {
		p.others = append(p.others, "sparse initializers")
	}
	return p, err
}

func (p *modelProto) opset(data []byte) error { return addOpset(p.opsets, data) }

func addOpset(to map[string]int64, data []byte) error {
	domain, version := "", int64(0)
	m := read("OperatorSetIdProto", data)
	for m.next() {
		switch m.number {
		case 1:
			domain = m.text()
		case 2:
			version = m.integer()
		}
	}
	if len(to) >= maxOpsets {
		return fmt.Errorf("the model imports more than %d operator sets", maxOpsets)
	}
	to[standard(domain)] = version
	return m.err
}

// standard is the default domain's one name.
func standard(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

func (g *graphProto) parse(data []byte) error {
	if g.depth > maxNesting {
		return fmt.Errorf("graphs stand in one another more than %d deep", maxNesting)
	}
	g.infos = make(map[string]valueProto)
	m := read("GraphProto", data)
	var err error
	for m.next() && err == nil {
		switch m.number {
		case 1:
			if len(g.nodes) >= maxNodes {
				return fmt.Errorf("the graph has more than %d nodes", maxNodes)
			}
			var n nodeProto
			n, err = parseNode(m.content(), g.depth)
			g.nodes = append(g.nodes, n)
		case 5:
			var t namedTensor
			if t, err = parseTensor(m.content()); err == nil {
				g.initializers = append(g.initializers, t)
			}
			if len(g.initializers) > maxTensors {
				err = fmt.Errorf("the graph has more than %d initializers", maxTensors)
			}
		case 11:
			g.inputs, err = addValue(g.inputs, m.content())
		case 12:
			g.outputs, err = addValue(g.outputs, m.content())
		case 13:
			var v valueProto
			if v, err = parseValue(m.content()); err == nil && len(g.infos) < maxTensors {
				g.infos[v.name] = v
			}
		case 15:
			g.sparse = true
		}
	}
	if m.err != nil {
		return m.err
	}
	return err
}

func addValue(to []valueProto, data []byte) ([]valueProto, error) {
	v, err := parseValue(data)
	if err == nil && len(to) >= maxNames {
		err = fmt.Errorf("the graph has more than %d inputs or outputs", maxNames)
	}
	return append(to, v), err
}

// parseNode reads a node of a graph, or of a function, that stands in depth others.
func parseNode(data []byte, depth int) (nodeProto, error) {
	n := nodeProto{}
	m := read("NodeProto", data)
	for m.next() {
		switch m.number {
		case 1:
			n.inputs = append(n.inputs, m.text())
		case 2:
			n.outputs = append(n.outputs, m.text())
		case 3:
			n.name = m.text()
		case 4:
			n.op = m.text()
		case 5:
			name, a, err := parseAttribute(m.content(), depth)
			if err != nil {
				return n, fmt.Errorf("node %q (%s): %w", n.name, n.op, err)
			}
			if n.attributes == nil {
				n.attributes = make(map[string]attribute)
			}
			n.attributes[name] = a
		case 7:
			n.domain = standard(m.text())
		case 8:
			n.overload = m.text()
		}
		if len(n.inputs) > maxNames || len(n.outputs) > maxNames || len(n.attributes) > maxAttributes {
			return n, fmt.Errorf("node %q (%s) has more than %d inputs or outputs, or more than %d attributes",
				n.name, n.op, maxNames, maxAttributes)
		}
	}
	return n, m.err
}

func parseAttribute(data []byte, depth int) (string, attribute, error) {
	name, a := "", attribute{}
	m := read("AttributeProto", data)
	for m.next() {
		var err error
		switch m.number {
		case 1:
			name = m.text()
		case 2:
			a.f = math.Float32frombits(uint32(m.scalar))
		case 3:
			a.i = m.integer()
		case 4:
			a.s = m.content()
		case 5:
			var t namedTensor
			t, err = parseTensor(m.content())
			a.tensor = &t.t
		case 6:
			a.graph = &graphProto{depth: depth + 1}
			err = a.graph.parse(m.content())
		case 7:
			a.floats = m.floats(a.floats)
		case 8:
			a.ints = m.varints(a.ints)
		case 9:
			a.strings = append(a.strings, m.content())
		case 14:
			a.value = new(valueProto)
			err = a.value.parseType(m.content(), plain)
		case 21:
			a.refers = m.text()
		case 10, 11, 15, 22, 23:
			a.foreign = true
		}
		if err != nil {
			return name, a, fmt.Errorf("attribute %q: %w", name, err)
		}
	}
	return name, a, m.err
}

// elementTypes are the types of TensorProto.DataType by number.
var elementTypes = map[int64]tensor.Type{
	1: tensor.Float32, 2: tensor.Uint8, 3: tensor.Int8, 4: tensor.Uint16, 5: tensor.Int16, 6: tensor.Int32,
	7: tensor.Int64, 8: tensor.Bytes, 9: tensor.Bool, 10: tensor.Float16, 11: tensor.Float64,
	12: tensor.Uint32, 13: tensor.Uint64, 16: tensor.BFloat16,
}

func elementType(number int64) (tensor.Type, error) {
	t, ok := elementTypes[number]
	if !ok {
		return tensor.Invalid, fmt.Errorf("element type %d of ONNX is not supported; %s", number, wayOut)
	}
	return t, nil
}

// rawTensor is TensorProto as it stands in the file.
type rawTensor struct {
	name     string
	dims     []int64
	kind     int64
	raw      []byte
	hasRaw   bool
	floats   []float32
	doubles  []float64
	ints     []int64 // int32_data, int64_data and uint64_data
	strings  [][]byte
	external bool
}

func parseTensor(data []byte) (namedTensor, error) {
	var r rawTensor
	m := read("TensorProto", data)
	for m.next() {
		switch m.number {
		case 1:
			r.dims = m.varints(r.dims)
		case 2:
			r.kind = m.integer()
		case 3:
			return namedTensor{}, fmt.Errorf("tensor %q is one segment of several, which is not supported", r.name)
		case 4:
			r.floats = m.floats(r.floats)
		case 5, 7, 11:
			r.ints = m.varints(r.ints)
		case 6:
			r.strings = append(r.strings, m.content())
		case 8:
			r.name = m.text()
		case 9:
			r.raw, r.hasRaw = m.content(), true
		case 10:
			r.doubles = m.doubles(r.doubles)
		case 13:
			r.external = true
		case 14:
			r.external = r.external || m.integer() != 0
		}
	}
	if m.err != nil {
		return namedTensor{}, m.err
	}
	t, err := r.tensor()
	if err != nil {
		return namedTensor{}, fmt.Errorf("tensor %q: %w", r.name, err)
	}
	return namedTensor{r.name, t}, nil
}

func (r *rawTensor) tensor() (tensor.Tensor, error) {
	if r.external {
		return tensor.Tensor{}, errors.New("its data stand in another file, which is never read; " +
			"save the model in one file (onnx.save_model with save_as_external_data=False)")
	}
	typ, err := elementType(r.kind)
	if err != nil {
		return tensor.Tensor{}, err
	}
	if len(r.dims) > maxRank {
		return tensor.Tensor{}, fmt.Errorf("%d dimensions; the limit is %d", len(r.dims), maxRank)
	}
	n, err := tensor.Elements(r.dims, maxBytes)
	if err != nil {
		return tensor.Tensor{}, err
	}
	t := tensor.Tensor{Type: typ, Shape: r.dims}
	var have int
	switch {
	case typ == tensor.Bytes:
		t.Strings, have = r.strings, len(r.strings)
	case r.hasRaw:
		if size := typ.Size(); len(r.raw)%size != 0 {
			have = -1
		} else if have = len(r.raw) / size; int64(have) == n {
			t.Data = aligned(len(r.raw))
			copy(t.Data, r.raw)
		}
	case typ == tensor.Float32:
		t.Data, have = aligned(4*len(r.floats)), len(r.floats)
		copy(tensor.Values[float32](&t), r.floats)
	case typ == tensor.Float64:
		t.Data, have = aligned(8*len(r.doubles)), len(r.doubles)
		copy(tensor.Values[float64](&t), r.doubles)
	default:
		t.Data, have = narrowed(r.ints, typ.Size()), len(r.ints)
	}
	if int64(have) != n {
		return t, fmt.Errorf("%d elements in the file for shape %v", have, r.dims)
	}
	return t, nil
}

// narrowed stores integers in elements of size bytes, little endian.
func narrowed(values []int64, size int) []byte {
	to := aligned(size * len(values))
	for i, v := range values {
		switch size {
		case 1:
			to[i] = byte(v)
		case 2:
			binary.LittleEndian.PutUint16(to[2*i:], uint16(v))
		case 4:
			binary.LittleEndian.PutUint32(to[4*i:], uint32(v))
		default:
			binary.LittleEndian.PutUint64(to[8*i:], uint64(v))
		}
	}
	return to
}

func parseValue(data []byte) (valueProto, error) {
	var v valueProto
	var typ []byte
	m := read("ValueInfoProto", data)
	for m.next() {
		switch m.number {
		case 1:
			v.name = m.text()
		case 2:
			typ = m.content()
		}
	}
	if m.err != nil {
		return v, m.err
	}
	if err := v.parseType(typ, plain); err != nil {
		return v, fmt.Errorf("value %q: %w", v.name, err)
	}
	return v, nil
}

// parseType reads a type that stands in one of the form around.
func (v *valueProto) parseType(data []byte, around form) error {
	m := read("TypeProto", data)
	for m.next() {
		var err error
		switch m.number {
		case 1:
			v.form = around
			err = v.tensorType(m.content())
		case 4:
			inner := list
			switch around {
			case option:
				inner = optionalList
			case list, optionalList:
				return errors.New("sequences of sequences are not supported")
			}
			err = v.element(m.content(), inner)
		case 5:
			v.other = "map"
		case 8:
			v.other = "sparse tensor"
		case 9:
			if around != plain {
				return errors.New("optional values within sequences or optional values are not supported")
			}
			err = v.element(m.content(), option)
		}
		if err != nil {
			return err
		}
	}
	return m.err
}

// element reads what a sequence or an optional value is of.
func (v *valueProto) element(data []byte, around form) error {
	v.form = around
	m := read("TypeProto.Sequence", data)
	for m.next() {
		if m.number == 1 {
			if err := v.parseType(m.content(), around); err != nil {
				return err
			}
		}
	}
	return m.err
}

func (v *valueProto) tensorType(data []byte) error {
	var shape []byte
	m := read("TypeProto.Tensor", data)
	for m.next() {
		switch m.number {
		case 1:
			var err error
			if v.typ, err = elementType(m.integer()); err != nil {
				return err
			}
		case 2:
			shape, v.ranked = m.content(), true
		}
	}
	if m.err != nil {
		return m.err
	}
	m = read("TensorShapeProto", shape)
	for m.next() {
		if m.number == 1 {
			size, err := parseDimension(m.content())
			if err != nil {
				return err
			}
			v.shape = append(v.shape, size)
		}
		if len(v.shape) > maxRank {
			return fmt.Errorf("more than %d dimensions", maxRank)
		}
	}
	return m.err
}

// parseDimension is a size of a shape: a number, or tensor.Any where it has a name or nothing.
func parseDimension(data []byte) (int64, error) {
	size := int64(tensor.Any)
	m := read("TensorShapeProto.Dimension", data)
	for m.next() {
		if m.number == 1 {
			// Some exporters write 0 or -1 for a size that they do not know.
			if size = m.integer(); size <= 0 {
				size = tensor.Any
			}
		}
	}
	return size, m.err
}
