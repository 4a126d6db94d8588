package state

import (
	"context"
	"fmt"
	"strings"

	"weir/internal/store"
)

// Verify names what is damaged in a store.
func Verify(ctx context.Context, s *store.Store) error {
	findings, err := s.Verify(ctx)
	if err != nil {
		return fmt.Errorf("the store cannot be read, and may be damaged: %w", err)
	}
	if len(findings) > 0 {
		return fmt.Errorf("the store is damaged; go back to a copy of it: %s", strings.Join(findings, "; "))
	}
	return nil
}
