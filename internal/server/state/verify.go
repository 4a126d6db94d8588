package state

import (
	"context"
	"fmt"
	"strings"
)

// Verify names what is damaged in a store.
func Verify(ctx context.Context, s *Store) error {
	findings, err := s.Verify(ctx, s.Audit.Findings)
	if err != nil {
		return fmt.Errorf("the store cannot be read, and may be damaged: %w", err)
	}
	if len(findings) > 0 {
		return fmt.Errorf("the store is damaged; go back to a copy of it: %s", strings.Join(findings, "; "))
	}
	return nil
}
