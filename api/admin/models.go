package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/api"
	"weir/internal/jsonfault"
)

// Models are the language models and text encoders of a server, for operators.
// Implementations are safe for concurrent use.
type Models interface {
	// List is every version of every model, the one that answers first.
	List() []ModelState
	// Do changes what is in memory or which version answers. by says who asked. Errors
	// wrap ErrNoModel where the name or the version is not known.
	Do(ctx context.Context, by string, c ModelChange) (ModelChanged, error)
}

// ErrNoModel says that there is no such model, or no such version of it.
var ErrNoModel = errors.New("no such model or version")

// ModelState is a version of a model.
type ModelState struct {
	Name     string     `json:"name"`
	Version  string     `json:"version"`
	Digest   string     `json:"digest"`
	State    string     `json:"state"` // loaded, absent, loading, leaving, unloaded
	Answers  bool       `json:"answers"`
	Last     bool       `json:"last,omitempty"` // a rollback brings it back
	Pinned   bool       `json:"pinned,omitempty"`
	Requests int        `json:"requests"` // that hold it
	Waiting  int        `json:"waiting"`  // for it to be loaded
	Bytes    int64      `json:"bytes"`
	LastUse  *time.Time `json:"last_use,omitempty"`
	Error    string     `json:"error,omitempty"` // why it could not be loaded

	Forecast *Forecast `json:"forecast,omitempty"` // what it takes, as weir doctor says before a load; nil: not known
}

// Forecast is what a version takes in memory and gives for it, by its file and the settings.
type Forecast struct {
	Architecture  string `json:"architecture"`
	Params        uint64 `json:"parameters"`
	WeightBytes   int64  `json:"weight_bytes"` // with what inputs take
	KVBytes       int64  `json:"kv_cache_bytes"`
	KVType        string `json:"kv_cache_dtype,omitempty"`
	MaxModelLen   int    `json:"max_model_len"`
	ContextLength int    `json:"context_length"`
	Full          int    `json:"sequences_of_full_length"` // that the KV cache holds at once
	Common        int    `json:"sequences_of_2048_tokens"`
	Fits          string `json:"fits"`                   // yes, after_unloading, no, unknown
	BudgetBytes   int64  `json:"memory_budget_bytes"`    // for all models; 0: no limit is known
	TakenBytes    int64  `json:"memory_taken_bytes"`     // by other versions
	Embeds        bool   `json:"text_encoder,omitempty"` // it has no KV cache
}

// Whether a version fits into the memory for models.
const (
	FitsNow     = "yes"
	FitsLater   = "after_unloading" // others
	FitsNever   = "no"
	FitsUnknown = "unknown"
)

// The changes of models.
const (
	ModelLoad     = "load"     // into memory
	ModelUnload   = "unload"   // once its requests have ended; new ones are refused until load
	ModelStop     = "stop"     // once its requests have ended; the next one brings it back
	ModelAlias    = "alias"    // let a version answer for its name
	ModelRollback = "rollback" // let the version answer that did before
)

var modelActions = []string{ModelLoad, ModelUnload, ModelStop, ModelAlias, ModelRollback}

// ModelChange is what an operator asks for.
type ModelChange struct {
	Action  string `json:"-"`
	Name    string `json:"name"`
	Version string `json:"version"` // empty: the one that answers

	// These are of a LoRA adapter that is loaded; one is unloaded by its name.
	Path  string  `json:"path,omitempty"`  // its GGUF file
	Model string  `json:"model,omitempty"` // whose adapter it is; empty: the only one
	Scale float32 `json:"scale,omitempty"` // 0 is 1
}

// ModelChanged is what happened to it.
type ModelChanged struct {
	Name    string  `json:"name"`
	Version string  `json:"version"`          // that answers now
	Before  string  `json:"before,omitempty"` // that answered, where that is another
	Seconds float64 `json:"seconds"`
}

const modelsPath = "/admin/models"

// maxChangeBytes bounds the body of a change.
const maxChangeBytes = 64 << 10

func (c Config) models(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]any{"models": c.Models.List()})
}

func (c Config) changeModel(w http.ResponseWriter, r *http.Request) {
	change := ModelChange{Action: r.PathValue("action")}
	if !slices.Contains(modelActions, change.Action) {
		refuse(w, api.Refuse("invalid_value", fmt.Sprintf("the action is %.40q; it must be one of %s", change.Action, strings.Join(modelActions, ", "))))
		return
	}
	if err := readBody(r, &change); err != nil {
		refuse(w, api.Refuse("invalid_value", err.Error()+`; send {"name": "chat", "version": "2"}`))
		return
	}
	if change.Name == "" || change.Action == ModelAlias && change.Version == "" {
		refuse(w, api.Refuse("invalid_value", "name is missing, or the version that alias lets answer; send both"))
		return
	}
	begun := time.Now()
	var fault *api.Error
	done, err := c.Models.Do(r.Context(), by(r), change)
	switch {
	case errors.As(err, &fault):
		refuse(w, fault)
	case errors.Is(err, ErrNoModel):
		refuse(w, &api.Error{Status: http.StatusNotFound, Type: api.TypeInvalidRequest, Code: "model_not_found", Message: err.Error()})
	case errors.Is(err, ErrDeployed):
		refuse(w, &api.Error{Status: http.StatusConflict, Type: api.TypeInvalidRequest, Code: "deployment_conflict", Message: err.Error(), NoRetry: true})
	case err != nil:
		refuse(w, api.Refuse("model_not_changed", change.Action+" "+change.Name+": "+err.Error()))
	default:
		done.Seconds = time.Since(begun).Seconds()
		write(w, http.StatusOK, done)
	}
}

// readBody reads a small JSON object without unknown fields.
func readBody(r *http.Request, into any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxChangeBytes))
	if err != nil {
		return fmt.Errorf("read the request's body: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the request's body: %w", jsonfault.Describe(err, body))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read the request's body: there is more than one JSON object")
	}
	return nil
}
