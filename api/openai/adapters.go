package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/tenant"
	"weir/internal/inference"
)

// loadAdapter answers POST /v1/load_lora_adapter in vLLM's form.
func loadAdapter(c *call) *api.Error {
	o, fault := c.body()
	if fault != nil {
		return fault
	}
	var a models.AdapterLoad
	a.Name, _ = o.Text("lora_name", &fault)
	a.Path, _ = o.Text("lora_path", &fault)
	a.Parent, _ = o.Text("base_model_name", &fault)
	a.InPlace = o.Flag("load_inplace", false, &fault)
	a.Scale = o.Number("scale", jsonbody.Interval{High: math.MaxFloat32, OpenLow: true}, 1, &fault)
	switch {
	case fault != nil:
		return fault
	case a.Name == "" || a.Path == "":
		return jsonbody.Missing("lora_name", "the adapter's name, and lora_path, its GGUF file")
	}
	return changeAdapter(c, func(ctx context.Context, t models.AdapterTable, by string) error { return t.LoadAdapter(ctx, by, a) },
		"Success: LoRA adapter '"+a.Name+"' added successfully.")
}

// unloadAdapter answers POST /v1/unload_lora_adapter in vLLM's form.
func unloadAdapter(c *call) *api.Error {
	o, fault := c.body()
	if fault != nil {
		return fault
	}
	name, _ := o.Text("lora_name", &fault)
	if fault == nil && name == "" {
		fault = jsonbody.Missing("lora_name", "the adapter's name")
	}
	if fault != nil {
		return fault
	}
	return changeAdapter(c, func(ctx context.Context, t models.AdapterTable, by string) error {
		return t.UnloadAdapter(ctx, by, name)
	},
		"Success: LoRA adapter '"+name+"' removed successfully.")
}

// changeAdapter makes a change, for those who may. The files of a server are its operator's, and what is loaded answers in its name.
func changeAdapter(c *call, change func(ctx context.Context, t models.AdapterTable, by string) error, done string) *api.Error {
	t := c.server.config.Adapters
	switch {
	case t == nil:
		return api.Refuse("unsupported_operation", "this server was started without --enable-lora; adapters are given with --lora-modules NAME=FILE, or loaded at the admin listener")
	case !c.caller.Scope.Has(tenant.ScopeAdmin):
		return edge.LacksScope(tenant.ScopeAdmin)
	}
	ctx, cancel := c.untilStopped()
	defer cancel(nil)
	from := c.ctx.RemoteAddr().String()
	err := change(ctx, t, cmp.Or(c.caller.By(from), "API, from "+from))
	var fault *api.Error
	switch {
	case errors.As(err, &fault):
		return fault
	case errors.Is(err, inference.ErrUnavailable):
		return edge.Fault(err)
	case err != nil:
		return api.Refuse("model_not_changed", err.Error())
	}
	c.ctx.SetContentType("text/plain; charset=utf-8")
	c.ctx.SetBodyString(done)
	return nil
}

// loraJSON is an adapter as llama.cpp's server lists them.
type loraJSON struct {
	ID     int     `json:"id"`
	Path   string  `json:"path"`
	Scale  float32 `json:"scale"`
	Task   string  `json:"task_name"`
	Prefix string  `json:"prompt_prefix"`
}

// serveLora answers GET and POST /lora-adapters. Adapters are asked by their names as models; no request gets one that does not name it.
func serveLora(c *call) *api.Error {
	if c.ctx.IsPost() {
		var list []json.RawMessage
		if err := json.Unmarshal(c.ctx.PostBody(), &list); err != nil || len(list) > 0 {
			return api.Refuse("unsupported_operation", "the scale of an adapter is not changed for all requests; name the adapter as the model of a request")
		}
		c.ctx.SetContentType("application/json")
		c.ctx.SetBodyString("[]")
		return nil
	}
	set, fault := c.models()
	if fault != nil {
		return fault
	}
	list := []loraJSON{}
	for _, m := range set.List {
		if m.Adapter != nil {
			list = append(list, loraJSON{ID: len(list), Path: m.ID}) // where it lies is not told; its scale for requests that do not name it is 0
		}
	}
	api.WriteJSON(c.ctx, statusOK, list)
	return nil
}
