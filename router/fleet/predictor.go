package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/router"
)

// Predictor is a classical model that other servers compute: weirs, or anything else with version 2 of the Open
// Inference Protocol over HTTP (Triton, MLServer, KServe). Tensors are the same everywhere, so that it is a
// router.Predictor like those that are computed here, whatever protocol its callers speak.
type Predictor struct {
	fleet *Fleet
	about atomic.Pointer[router.Description]
}

// NewPredictor is the classical model of a fleet. Run finds out what the model takes and gives.
func NewPredictor(f *Fleet) *Predictor { return &Predictor{fleet: f} }

// Describe implements router.Predictor; nil until a replica has told.
func (p *Predictor) Describe() *router.Description { return p.about.Load() }

// Run watches the replicas, and what the model takes and gives, until ctx ends.
func (p *Predictor) Run(ctx context.Context) {
	go p.fleet.Run(ctx)
	for {
		pauseFor := p.fleet.config.LookEvery
		p.Look(ctx)
		if p.about.Load() == nil {
			pauseFor = min(pauseFor, unknownModelPause)
		}
		if !pause(ctx, pauseFor) {
			return
		}
	}
}

// unknownModelPause is how soon replicas are asked again for a model of which nothing is known.
const unknownModelPause = 200 * time.Millisecond

// Look asks the replicas in turn what the model takes and gives, until one tells or ctx ends.
func (p *Predictor) Look(ctx context.Context) {
	for _, r := range p.fleet.members.Load().list {
		if !r.takes() {
			continue
		}
		if about, err := p.ask(ctx, r); err == nil {
			p.about.Store(about)
			return
		}
	}
}

func (p *Predictor) ask(ctx context.Context, r *replica) (*router.Description, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	res, err := r.wire.get(ctx, r.wire.root("/v2/models/"+url.PathEscape(r.model)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // only read
	answer := router.Answer{Status: res.StatusCode}
	defer answer.Release()
	err = p.fleet.read(&answer, res.Body, res.ContentLength, 0)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.200q", res.StatusCode, answer.Whole)
	}
	if err != nil {
		return nil, err
	}
	about, err := readDescription(answer.Whole)
	if about != nil {
		about.Name, about.Version = p.fleet.config.Model, cmp.Or(p.fleet.config.Version, about.Version)
	}
	return about, err
}

// Predict implements router.Predictor.
func (p *Predictor) Predict(ctx context.Context, q *router.Prediction) error {
	body, header, err := writeInference(q)
	if err != nil {
		return err
	}
	call := &router.Call{
		Body: body, Domain: q.Tenant, Residency: q.Residency,
		Head: router.Head{RequestID: q.ID, DoneBy: q.DoneBy, Class: q.Class.String(), Caller: q.Signer, Counted: q.Counted},
		Infer: &router.Inference{Header: header, Read: func(h http.Header, whole []byte) (err error) {
			if q.Outputs, q.Notes, err = readInference(h, whole); err == nil {
				err = fits(p.about.Load(), q)
			}
			return err
		}},
	}
	began := time.Now()
	answer, err := p.fleet.Send(ctx, call)
	defer answer.Release() // the outputs may lie in it, and count until they are not read
	q.Waited, q.Computed, q.Batch = 0, time.Since(began), 0
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, router.ErrOversized):
		return fmt.Errorf("%w: the servers behind model %s: %w; ask for fewer rows or outputs at once, or raise --http-body-memory-bytes", inference.ErrNeverFits, p.fleet.config.Model, err)
	case err != nil:
		return fmt.Errorf("%w: the servers behind model %s: %w", inference.ErrUnavailable, p.fleet.config.Model, err)
	case answer.Status != http.StatusOK:
		return refusalOf(answer)
	}
	q.Notes = append(q.Notes, router.Note{Name: "replica", Value: answer.Replica})
	return nil
}

// fits says why outputs are not what the model gives for the inputs: one that was asked for is missing, has another type or
// shape than the model's metadata says, or does not have a row for each row that was asked. To one row a model may answer with
// several, such as the objects in a picture.
func fits(about *router.Description, q *router.Prediction) error {
	for _, name := range q.Wanted {
		if !slices.ContainsFunc(q.Outputs, func(t tensor.Tensor) bool { return t.Name == name }) {
			return fmt.Errorf("%w: output %.100q is missing", errAnswer, name)
		}
	}
	if about == nil {
		return nil
	}
	rows, batched := rowsOf(about, q)
	for i := range q.Outputs {
		t := &q.Outputs[i]
		at := slices.IndexFunc(about.Outputs, func(s tensor.Spec) bool { return s.Name == t.Name })
		if at < 0 {
			continue
		}
		spec := &about.Outputs[at]
		if spec.Fits(t) != nil {
			return fmt.Errorf("%w: output %.100q is %v with shape %v, and the model gives %v with shape %v", errAnswer, t.Name, t.Type, t.Shape, spec.Type, spec.Shape)
		}
		if batched && len(spec.Shape) > 0 && spec.Shape[0] == tensor.Any && (rows > 1 && t.Shape[0] != rows || t.Shape[0] < min(rows, 1)) {
			return fmt.Errorf("%w: output %.100q has %d rows for %d", errAnswer, t.Name, t.Shape[0], rows)
		}
	}
	return nil
}

// rowsOf is how many rows a prediction asks for, where all inputs of the model have rows.
func rowsOf(about *router.Description, q *router.Prediction) (rows int64, batched bool) {
	for i := range q.Inputs {
		t := &q.Inputs[i]
		at := slices.IndexFunc(about.Inputs, func(s tensor.Spec) bool { return s.Name == t.Name })
		if at < 0 || len(t.Shape) == 0 || len(about.Inputs[at].Shape) == 0 || about.Inputs[at].Shape[0] != tensor.Any || i > 0 && t.Shape[0] != rows {
			return 0, false
		}
		rows = t.Shape[0]
	}
	return rows, len(q.Inputs) > 0
}

// refusals are what replicas' statuses mean here.
var refusals = map[int]error{
	http.StatusBadRequest: inference.ErrInvalid, http.StatusRequestEntityTooLarge: inference.ErrInvalid,
	http.StatusUnprocessableEntity: inference.ErrInvalid, http.StatusConflict: inference.ErrSchema,
	http.StatusRequestTimeout: inference.ErrDeadline, http.StatusTooManyRequests: inference.ErrTenantQueueFull,
}

// refusalOf is a replica's refusal as an error of this server. What only the router could change (its key, the model's
// name there) makes the replica unavailable.
func refusalOf(a *router.Answer) error {
	sentinel := cmp.Or(refusals[a.Status], inference.ErrUnavailable)
	text := refusalText(a.Whole)
	if a.Fault != nil && (text == "" || a.Fault.Lasting()) {
		text = "it " + a.Fault.Told()
	}
	err := fmt.Errorf("%w: %s: %s", sentinel, a.Replica, text)
	if refusals[a.Status] == nil && a.Status < http.StatusInternalServerError {
		return err // what the server says is not for who asks here
	}
	return &router.RetryAdviceError{Err: err, Advice: router.RetryAdviceOf(a.Status, a.Header, time.Now())}
}

// refusalText is the message of {"error":"…"}, as the protocol has it, of {"error":{"message":"…"}}, or a line of plain
// text. It is empty for anything else, such as HTML.
func refusalText(body []byte) string {
	var outer struct{ Error json.RawMessage }
	var text string
	var inner struct{ Message string }
	switch {
	case json.Unmarshal(body, &outer) != nil:
	case json.Unmarshal(outer.Error, &text) == nil:
	case json.Unmarshal(outer.Error, &inner) == nil:
		text = inner.Message
	}
	if plain := bytes.TrimSpace(body); text == "" && len(plain) > 0 && utf8.Valid(plain) && plain[0] != '<' && plain[0] != '{' && bytes.IndexByte(plain, '\n') < 0 {
		text = string(plain)
	}
	const most = 500
	return text[:min(len(text), most)]
}

var (
	_ router.Predictor = (*Predictor)(nil)

	errAnswer = errors.New("the answer is no V2 inference response")
)
