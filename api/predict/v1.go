package predict

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"weir/api"
	"weir/internal/tensor"
	"weir/router"
)

// alive is how KServe's client asks whether a server lives.
func (c *call) alive() *api.Error { return c.json(map[string]string{"status": "alive"}) }

// statusJSON answers GET /v1/models/{model} for three kinds of clients at once: name
// and ready are KServe's, model_version_status is TensorFlow Serving's, the rest
// OpenAI's.
type statusJSON struct {
	Name     string          `json:"name"`
	Ready    bool            `json:"ready"`
	Versions []versionStatus `json:"model_version_status"`

	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

type versionStatus struct {
	Version string `json:"version"`
	State   string `json:"state"`
	Status  struct {
		Code    string `json:"error_code"`
		Message string `json:"error_message"`
	} `json:"status"`
}

// statusV1 tells a model's state: 200 where it can be used, else 503, as KServe's client
// wants it.
func (c *call) statusV1() *api.Error {
	answer := statusJSON{
		Name: c.Params.Name, ID: c.Params.Name, Object: "model", Created: created, OwnedBy: "weir", Versions: []versionStatus{},
	}
	for _, m := range c.visible(&c.job) {
		if m.Name != c.Params.Name || c.Params.Version != "" && m.Version != c.Params.Version {
			continue
		}
		v := versionStatus{Version: m.Version, State: "AVAILABLE"}
		v.Status.Code = "OK"
		if !m.Ready {
			v.State = "LOADING"
			if m.Reason != "" {
				v.State, v.Status.Code, v.Status.Message = "END", "UNAVAILABLE", m.Reason
			}
		}
		answer.Ready = answer.Ready || m.Ready
		answer.Versions = append(answer.Versions, v)
	}
	if len(answer.Versions) == 0 {
		return c.model()
	}
	status := statusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	api.WriteJSON(c.Ctx, status, answer)
	return nil
}

// unsupportedVerb refuses what peers serve and this server does not.
func (c *call) unsupportedVerb() *api.Error {
	return api.Refuse("unsupported_operation", fmt.Sprintf("%s is not served here; use :predict, or POST /v2/models/%s/infer",
		c.route.Pattern, c.Params.Name))
}

// predictV1 answers POST /v1/models/{model}:predict.
func (c *call) predictV1() *api.Error {
	if fault := c.model(); fault != nil {
		return fault
	}
	body := c.Ctx.Request.Body()
	r := readerV1{scanner: scanner{b: body}, job: &c.job, strict: c.config.Strict}
	if fault := r.read(); fault != nil {
		return fault
	}
	again, fault := c.settled()
	if again && fault == nil {
		c.p.Inputs, c.warnings = nil, nil
		r = readerV1{scanner: scanner{b: body}, job: &c.job, strict: c.config.Strict}
		fault = r.read()
	}
	if fault != nil {
		return fault
	}
	if fault := c.score(); fault != nil {
		return fault
	}
	answer, fault := appendV1(nil, c.p.Outputs, r.rows, r.count)
	if fault != nil {
		return fault
	}
	c.Ctx.SetContentType("application/json")
	c.Ctx.Response.SetBodyRaw(answer)
	return nil
}

// readerV1 reads the body of a V1 request.
type readerV1 struct {
	scanner
	*job
	strict bool
	rows   bool  // row form: instances
	count  int64 // of rows
	seen   bool  // instances or inputs
}

const signature = "serving_default" // the only one

func (r *readerV1) read() *api.Error {
	fault := r.fields(func(name []byte) *api.Error {
		switch string(name) {
		case "instances", "inputs":
			if r.seen {
				return api.Refuse("invalid_value", "the request has both instances and inputs; send rows as instances or columns as inputs")
			}
			r.seen, r.rows = true, name[2] == 's'
			if r.rows {
				return r.instances()
			}
			return r.columns()
		case "signature_name":
			text, fault := r.str("signature_name")
			if fault == nil && text != "" && text != signature {
				fault = api.Refuse("invalid_value", fmt.Sprintf("signature_name is %s; models here have one signature, %s", quote(text), signature))
			}
			return fault
		}
		field := string(name)
		if fault := r.ignore(); fault != nil {
			return fault
		}
		return r.warn(r.strict, quote(field))
	})
	if fault != nil {
		return fault
	}
	if !r.seen {
		return api.Refuse("missing_required_parameter", `the request has neither instances (rows) nor inputs (columns); send {"instances": [[…], …]}`)
	}
	return r.end()
}

// instances reads the row form: a list of values of the model's only input, or of
// objects that name their values.
func (r *readerV1) instances() *api.Error {
	if r.peek() == '[' {
		at := r.i
		r.i++
		named := r.peek() == '{' && !r.isBytes()
		r.i = at
		if named {
			return r.namedRows()
		}
	}
	fault := r.single(onlyRows)
	if fault == nil && len(r.p.Inputs[0].Shape) == 0 {
		return api.Refuse("invalid_value", "instances is one value; it must be a list of rows")
	}
	if fault == nil {
		r.count = r.p.Inputs[0].Shape[0]
	}
	return fault
}

// isBytes reports whether {"b64": …} is next.
func (r *readerV1) isBytes() bool {
	probe := scanner{b: r.b, i: r.i}
	if !probe.take('{') {
		return false
	}
	name, fault := probe.text()
	return fault == nil && string(name) == "b64"
}

// single reads all values of the model's only input, or of the matrix of its features.
func (r *readerV1) single(f form) *api.Error {
	var misfit *api.Error
	if matrix := r.matrix(); matrix != nil {
		at := r.i
		fault := r.values(f, matrix)
		if fault == nil && matrix.Fits(&r.p.Inputs[0]) == nil {
			return nil
		}
		if misfit = fault; fault == nil {
			misfit = api.Refuse("invalid_value", fmt.Sprintf("rows without names have all features of model %s in the manifest's order: shape %v; the request has %v. "+
				"Send such rows, or objects that name their values", r.about.Name, matrix.Shape, r.p.Inputs[0].Shape))
		}
		r.i = at
	}
	if len(r.about.Inputs) != 1 && misfit != nil {
		return misfit
	}
	if len(r.about.Inputs) != 1 {
		return api.Refuse("invalid_value", fmt.Sprintf("model %s has %d inputs, so that values need names: %s", r.about.Name, len(r.about.Inputs), inputNames(r.about)))
	}
	fault := r.values(f, &r.about.Inputs[0])
	if misfit != nil && (fault != nil || r.about.Inputs[0].Fits(&r.p.Inputs[0]) != nil) {
		return misfit
	}
	return fault
}

// matrix is the input of all features by place; nil where there is none.
func (r *readerV1) matrix() *tensor.Spec {
	i := slices.IndexFunc(r.about.Optional, func(s tensor.Spec) bool { return s.Name == r.about.Matrix })
	if r.about.Matrix == "" || i < 0 {
		return nil
	}
	return &r.about.Optional[i]
}

// values reads all values of one input.
func (r *readerV1) values(f form, spec *tensor.Spec) *api.Error {
	a, fault := newArray(spec.Name, f, spec.Type, r.guess())
	if fault == nil {
		fault = a.read(&r.scanner)
	}
	if fault != nil {
		return fault
	}
	r.p.Inputs = []tensor.Tensor{a.elements.tensor(spec.Name, fit(a.shape(), spec))}
	return nil
}

// guess is how many numbers the rest of the body may hold, so that their array need not
// grow: most take four bytes or more.
func (s *scanner) guess() int64 {
	const bytesPerNumber = 4
	return int64(len(s.b)-s.i)/bytesPerNumber + 1
}

// fit adds sizes of 1 behind a shape where the model's has them: a list of numbers is
// also a list of rows of one number each.
func fit(shape []int64, spec *tensor.Spec) []int64 {
	for len(shape) > 0 && len(shape) < len(spec.Shape) {
		if size := spec.Shape[len(shape)]; size != 1 && size != tensor.Any {
			break
		}
		shape = append(shape, 1)
	}
	return shape
}

// column is the tensor of one name, which grows by rows.
type column struct {
	name  string
	spec  tensor.Spec
	array *array
	rows  int64
}

// namedRows reads instances that are objects, all with the same names.
func (r *readerV1) namedRows() *api.Error {
	var columns []*column
	next := 0 // the column that most likely comes next
	fault := r.elements(func() *api.Error {
		next = 0
		fault := r.fields(func(name []byte) *api.Error {
			if next >= len(columns) || columns[next].name != string(name) {
				var fault *api.Error
				if next, columns, fault = r.column(columns, name); fault != nil {
					return fault
				}
			}
			col := columns[next]
			next++
			if col.rows != r.count {
				return r.uneven(col.name)
			}
			col.rows++
			col.array.row = r.count
			return col.array.read(&r.scanner)
		})
		r.count++
		return fault
	})
	if fault != nil {
		return fault
	}
	for _, col := range columns {
		if col.rows != r.count {
			return r.uneven(col.name)
		}
		shape := append([]int64{r.count}, col.array.shape()...)
		r.p.Inputs = append(r.p.Inputs, col.array.elements.tensor(col.name, fit(shape, &col.spec)))
	}
	return nil
}

// newArray is that of a name: of a feature, or of the model's own input.
func (r *readerV1) newArray(name string, f form, t tensor.Type) (*array, *api.Error) {
	if r.about.Schema != "" {
		return newFeature(name, f, t, 1)
	}
	if t == tensor.Bytes && slices.ContainsFunc(r.about.Optional, func(s tensor.Spec) bool { return s.Name == name }) {
		a, fault := newArray(name, f, t, 1)
		if fault == nil {
			a.elements = new(categories)
		}
		return a, fault
	}
	return newArray(name, f, t, 1)
}

func (r *readerV1) uneven(name string) *api.Error {
	return api.Refuse("invalid_value", fmt.Sprintf("instances do not all have %s; every row must have the same names", quote(name)))
}

// column finds a name's column, or adds one in the first row.
func (r *readerV1) column(columns []*column, name []byte) (at int, all []*column, fault *api.Error) {
	for i, col := range columns {
		if col.name == string(name) {
			return i, columns, nil
		}
	}
	if r.count > 0 {
		return 0, columns, r.uneven(string(name))
	}
	if len(name) > maxNameBytes {
		return 0, columns, api.Refuse("invalid_value", fmt.Sprintf("an input's name has %d bytes; at most %d are taken", len(name), maxNameBytes))
	}
	col := &column{name: string(name), spec: r.spec(string(name))}
	if col.array, fault = r.newArray(col.name, namedRow, col.spec.Type); fault != nil {
		return 0, columns, fault
	}
	return len(columns), append(columns, col), nil
}

// spec is that of an input by its name. A name that is no input's may be that of a
// column of the model's only input: it has its type.
func (r *readerV1) spec(name string) tensor.Spec {
	for _, list := range [2][]tensor.Spec{r.about.Inputs, r.about.Optional} {
		for i := range list {
			if list[i].Name == name {
				return list[i]
			}
		}
	}
	kind := tensor.Float64
	if len(r.about.Inputs) > 0 {
		kind = r.about.Inputs[0].Type
	}
	return tensor.Spec{Name: name, Type: kind, Shape: []int64{tensor.Any}}
}

// columns reads the column form: the values of the only input, or an object that names
// those of each.
func (r *readerV1) columns() *api.Error {
	if r.peek() != '{' || r.isBytes() {
		return r.single(onlyColumn)
	}
	return r.fields(func(name []byte) *api.Error {
		if len(name) > maxNameBytes {
			return api.Refuse("invalid_value", fmt.Sprintf("an input's name has %d bytes; at most %d are taken", len(name), maxNameBytes))
		}
		spec := r.spec(string(name))
		a, fault := r.newArray(string(name), namedColumn, spec.Type)
		if fault == nil {
			fault = a.read(&r.scanner)
		}
		if fault != nil {
			return fault
		}
		r.p.Inputs = append(r.p.Inputs, a.elements.tensor(string(name), fit(a.shape(), &spec)))
		return nil
	})
}

func inputNames(d *router.Description) string {
	list := make([]string, len(d.Inputs))
	for i := range d.Inputs {
		list[i] = d.Inputs[i].Name
	}
	return strings.Join(list, ", ")
}

// appendV1 writes outputs: by rows as predictions where the request had rows, by
// columns as outputs where it had columns. A single output has no name.
func appendV1(dst []byte, outputs []tensor.Tensor, byRow bool, rows int64) ([]byte, *api.Error) {
	writers := make([]writer, len(outputs))
	for i := range outputs {
		o := &outputs[i]
		if !isWritable(o.Type) {
			return nil, api.Refuse("unsupported_operation", fmt.Sprintf("output %q is %v, which JSON cannot carry exactly; use binary data or gRPC", o.Name, o.Type))
		}
		if byRow && (len(o.Shape) == 0 || o.Shape[0] != rows) {
			return nil, api.Refuse("unsupported_operation", fmt.Sprintf("output %q has shape %v, not one value for each of %d rows; send columns as inputs", o.Name, o.Shape, rows))
		}
		writers[i] = newWriter(o, isBytesName(o.Name))
	}
	dst = slices.Grow(dst, room(writers))
	if byRow {
		return appendRows(dst, writers, int(rows)), nil
	}
	dst = append(dst, `{"outputs":`...)
	if len(writers) == 1 {
		return append(writers[0].nested(dst, outputs[0].Shape, 0), '}'), nil
	}
	for i := range writers {
		dst = append(appendName(dst, i, outputs[i].Name), ':')
		dst = writers[i].nested(dst, outputs[i].Shape, 0)
	}
	return append(dst, "}}"...), nil
}

// appendName begins field i of an object.
func appendName(dst []byte, i int, name string) []byte {
	if i == 0 {
		return api.AppendString(append(dst, '{'), name)
	}
	return api.AppendString(append(dst, ','), name)
}

func appendRows(dst []byte, writers []writer, rows int) []byte {
	dst = append(dst, `{"predictions":[`...)
	for row := range rows {
		if row > 0 {
			dst = append(dst, ',')
		}
		for i := range writers {
			w := &writers[i]
			inner := w.t.Shape[1:]
			if len(writers) > 1 {
				dst = append(appendName(dst, i, w.t.Name), ':')
			}
			dst = w.nested(dst, inner, row*stride(inner))
		}
		if len(writers) > 1 {
			dst = append(dst, '}')
		}
	}
	return append(dst, "]}"...)
}
