package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"weir/internal/console"
)

// listen starts answering on both ports, before there is a model.
func (s *Server) listen() {
	go func() {
		if err := s.http.Serve(s.ports.api); err != nil {
			s.failed <- err
		}
	}()
	if s.ports.tls != nil {
		s.callers.begin(func(ctx context.Context) { s.ports.tls.follow(ctx, tlsFilesEvery) })
	}
	fields := []zap.Field{zap.String("api", s.ports.apiURL())}
	if s.ports.admin != nil {
		fields = append(fields, zap.String("metrics", s.ports.adminURL()+"/metrics"))
		go func() {
			if err := s.admin.Serve(s.ports.admin); !errors.Is(err, http.ErrServerClosed) {
				s.failed <- fmt.Errorf("serve metrics: %w", err)
			}
		}()
	}
	if s.rpc != nil {
		fields = append(fields, zap.String("grpc", s.ports.rpc.Addr().String()))
		go func() {
			if err := s.rpc.Serve(s.ports.rpc); err != nil {
				s.failed <- err
			}
		}()
	}
	s.log.Info("listening", fields...)
}

// load reads the models and opens the API for requests, the classical ones first: they
// take milliseconds. Names that deployments and rollouts in the store have moved are theirs before a request gets them.
func (s *Server) load(ctx context.Context) error {
	if err := s.predictors.load(ctx, s.config); err != nil {
		return err
	}
	commit, err := s.fleets.prepare(s.config)
	if err != nil {
		return err
	}
	commit()
	s.languages.start()
	s.brownout.start(s.languages.engines)
	say := s.announce
	if len(s.plan) == 0 {
		say = func() error { return s.classicReady(s.out) }
	} else if err := s.languages.load(ctx, s.plan); err != nil {
		return err
	}
	s.rollouts.Begin()
	s.deployments.start()
	s.predictors.started()
	if err := s.fleets.started(); err != nil {
		return err
	}
	return s.opened(ctx, say)
}

// opened says what is served, unless the server ends already.
func (s *Server) opened(ctx context.Context, say func() error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // who runs the server knows that it ends
	}
	return say()
}

// announce says what is served.
func (s *Server) announce() error {
	plan := s.plan
	first := plan[0].record.Name
	block := banner{model: first, info: s.languages.current(first), url: s.ports.apiURL(), chats: true,
		keyed: !s.callers.authenticator.Open(), store: s.storePlace(), classical: s.predictors.names()}
	if r := s.languages.answering(first); r != nil {
		block.chats = r.Template.Template != nil
	}
	for _, p := range plan[1:] {
		if name := p.record.Name; name != first && !slices.Contains(block.others, name) {
			block.others = append(block.others, name)
		}
	}
	if s.ports.admin != nil {
		block.metrics = s.ports.adminURL()
	}
	return block.print(s.out)
}

// classicReady writes one block: what is served where, and a first call.
func (s *Server) classicReady(w io.Writer) error {
	var b strings.Builder
	names := s.predictors.names()
	fmt.Fprintf(&b, "\nweir serves %s on %s\n\n", console.Printable(strings.Join(append(s.fleets.served(), names...), ", ")), s.ports.apiURL())
	for _, m := range s.predictors.local.Index() {
		if served, err := s.predictors.local.Find(m.Name, m.Version); err == nil && served.Loaded() != nil {
			v := served.Loaded()
			fmt.Fprintf(&b, "  %-9s %s version %s: %s, %s a row\n", "model", console.Printable(m.Name), console.Printable(m.Version), console.Printable(v.Kernel()), v.Estimate(1).Round(100*time.Nanosecond))
		}
	}
	for _, line := range s.fleets.lines() {
		fmt.Fprintf(&b, "  %-9s %s\n", "model", line)
	}
	if s.ports.admin != nil {
		fmt.Fprintf(&b, "  %-9s %s/metrics\n", "metrics", s.ports.adminURL())
	}
	if place := s.storePlace(); place != "" {
		fmt.Fprintf(&b, "  %-9s %s\n", "store", console.Printable(place))
	}
	if len(names) > 0 {
		fmt.Fprintf(&b, "\n%s\n\n", s.firstPrediction(names[0]))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// firstPrediction is a first call to paste into a shell: a row of zeros, where the model
// takes one row of a few numbers, or the question what it takes.
func (s *Server) firstPrediction(name string) string {
	key := ""
	if !s.callers.authenticator.Open() {
		key = ` -H "Authorization: Bearer $WEIR_API_KEY"`
	}
	served, err := s.predictors.local.Find(name, "")
	if err == nil {
		if in := served.Describe().Inputs; len(in) == 1 && len(in[0].Shape) == 2 && in[0].Shape[1] > 0 && in[0].Shape[1] <= 32 {
			row := strings.TrimSuffix(strings.Repeat("0, ", int(in[0].Shape[1])), ", ")
			return fmt.Sprintf("curl %s%s \\\n  -d %s", shellQuote(s.ports.apiURL()+"/v1/models/"+console.Printable(name)+":predict"), key,
				shellQuote(`{"instances": [[`+row+`]]}`))
		}
	}
	return fmt.Sprintf("curl %s%s", shellQuote(s.ports.apiURL()+"/v2/models/"+console.Printable(name)), key)
}
