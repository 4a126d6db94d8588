package predict

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"weir/api"
	"weir/api/edge"
	"weir/internal/tensor"
	"weir/router"
)

const serverName = "weir"

// extensions are those of Triton's that are served, by their names.
var extensions = []string{
	"classification", "model_configuration", "model_repository", "model_repository(unload_dependents)", "schedule_policy",
	"statistics", "binary_tensor_data", "parameters",
}

func (c *call) serverMetadata() *api.Error {
	return c.json(map[string]any{"name": serverName, "version": c.config.Version, "extensions": extensions})
}

// healthJSON serves all readings of the protocol: clients look at live, at ready, or at
// the status alone. A live server says that it is ready, too: some clients ask the one
// endpoint and read the other's field.
type healthJSON struct {
	Live   bool   `json:"live"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

func (c *call) live() *api.Error {
	return c.json(healthJSON{Live: true, Ready: true})
}

func (c *call) ready() *api.Error {
	status := statusOK
	ready, why := c.isReady()
	answer := healthJSON{Live: true, Ready: ready}
	if !ready {
		status, answer.Reason = http.StatusServiceUnavailable, why
	}
	api.WriteJSON(c.Ctx, status, answer)
	return nil
}

// isReady reports whether the server takes requests.
func (s *Server) isReady() (ready bool, why string) {
	if s.running.IsDraining() {
		return false, "draining"
	}
	return s.config.Ready()
}

func (c *call) listModels() *api.Error {
	list := []string{}
	for _, m := range c.visible(&c.job) {
		if !slices.Contains(list, m.Name) {
			list = append(list, m.Name)
		}
	}
	return c.json(map[string]any{"models": list})
}

type tensorJSON struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

type metadataJSON struct {
	Name     string       `json:"name"`
	Versions []string     `json:"versions"`
	Platform string       `json:"platform"`
	Inputs   []tensorJSON `json:"inputs"`
	Outputs  []tensorJSON `json:"outputs"`
}

func (c *call) modelMetadata() *api.Error {
	if fault := c.model(); fault != nil {
		return fault
	}
	d := c.about
	return c.json(metadataJSON{
		Name: d.Name, Versions: c.versions(d.Name), Platform: d.Platform,
		Inputs: tensorsJSON(slices.Concat(d.Inputs, d.Optional)), Outputs: tensorsJSON(d.Outputs),
	})
}

// versions lists those of a model that can be used.
func (s *Server) versions(model string) []string {
	list := []string{}
	for _, m := range s.config.Models.Index() {
		if m.Name == model && m.Ready {
			list = append(list, m.Version)
		}
	}
	return list
}

func tensorsJSON(specs []tensor.Spec) []tensorJSON {
	list := make([]tensorJSON, len(specs))
	for i, s := range specs {
		list[i] = tensorJSON{s.Name, s.Type.String(), append([]int64{}, s.Shape...)}
	}
	return list
}

// modelReady answers 200 for a model that can be used, else 503.
func (c *call) modelReady() *api.Error {
	ready, fault := c.modelIsReady(&c.job, c.Params.Name, c.Params.Version)
	if fault != nil {
		return fault
	}
	status := statusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	api.WriteJSON(c.Ctx, status, map[string]any{"name": c.Params.Name, "ready": ready})
	return nil
}

// modelIsReady reports whether a model can be used; the fault says that there is none.
func (s *Server) modelIsReady(j *job, model, version string) (bool, *api.Error) {
	fault := s.use(j, model, version)
	switch {
	case fault == nil:
	case fault.Status == http.StatusServiceUnavailable:
		return false, nil
	default:
		if language := s.config.Language; language != nil && version == "" && fault.Status == http.StatusNotFound {
			if ready, known := language(&j.Caller, model); known {
				return ready, nil
			}
		}
		return false, fault
	}
	for _, m := range s.config.Models.Index() {
		if m.Name == j.about.Name && m.Version == j.about.Version {
			return m.Ready, nil
		}
	}
	return true, nil
}

// configTensor is an input or an output in Triton's model configuration.
type configTensor struct {
	Name     string  `json:"name"`
	DataType string  `json:"data_type"`
	Dims     []int64 `json:"dims"`
}

// modelConfig answers with what Triton's configuration says of a model, as far as it
// means something here.
func (c *call) modelConfig() *api.Error {
	if fault := c.model(); fault != nil {
		return fault
	}
	d := c.about
	list := func(specs []tensor.Spec) []configTensor {
		all := make([]configTensor, len(specs))
		for i, s := range specs {
			all[i] = configTensor{s.Name, configType(s.Type), dimsOf(d, s.Shape)}
		}
		return all
	}
	return c.json(map[string]any{
		"name": d.Name, "platform": d.Platform, "backend": serverName, "max_batch_size": maxBatch(d),
		"input": list(d.Inputs), "output": list(d.Outputs),
	})
}

// configType is Triton's name of a type in configurations.
func configType(t tensor.Type) string {
	if t == tensor.Bytes {
		return "TYPE_STRING"
	}
	return "TYPE_" + t.String()
}

// maxBatch is the most rows of a request where all inputs have rows, which Triton takes
// for batching; else 0.
func maxBatch(d *router.Description) int {
	for i := range d.Inputs {
		if s := d.Inputs[i].Shape; len(s) == 0 || s[0] != tensor.Any {
			return 0
		}
	}
	return d.MaxRows
}

// dimsOf is a shape as Triton's configuration has it: without the rows where the model
// batches.
func dimsOf(d *router.Description, shape []int64) []int64 {
	if maxBatch(d) == 0 || len(shape) == 0 {
		return append([]int64{}, shape...)
	}
	if len(shape) == 1 {
		return []int64{1} // a configuration has no empty dims
	}
	return append([]int64{}, shape[1:]...)
}

// unknownPath refuses what peers may serve below /v2 and this server does not.
func (c *call) unknownPath() *api.Error {
	return api.Refuse("unknown_url", fmt.Sprintf("there is no %s here; GET /v2 tells what is served, GET /v2/models the models",
		quote(edge.RequestPath(c.Ctx.Request.Header.RequestURI()))))
}

// inferV2 answers POST /v2/models/{model}/infer.
func (c *call) inferV2() *api.Error {
	if fault := c.model(); fault != nil {
		return fault
	}
	r := readerV2{job: &c.job, terms: &c.terms, strict: c.config.Strict}
	if fault := r.split(c.Ctx.Request.Body(), lengthField.Of(&c.Ctx.Request.Header)); fault != nil {
		return fault
	}
	if c.Internal != nil && r.wantsBinary() {
		return api.Refuse("invalid_value", "the answer stands in a line of JSON, which has no place for binary data; leave out binary_data and binary_data_output")
	}
	if c.id != r.name && !c.named {
		c.name(r.name)
		c.Ctx.Response.Header.Set("X-Request-Id", c.id)
	}
	if _, fault := c.settled(); fault != nil {
		return fault
	}
	if fault := c.score(); fault != nil {
		return fault
	}
	text, data, fault := r.answer(c.about)
	if fault != nil {
		return fault
	}
	if data == nil {
		c.Ctx.SetContentType("application/json")
	} else {
		c.Ctx.SetContentType("application/octet-stream")
		c.Ctx.Response.Header.Set(headerLength, strconv.Itoa(len(text)))
		text = append(text, data...)
	}
	c.Ctx.Response.SetBodyRaw(text)
	return nil
}
