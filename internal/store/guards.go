package store

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// chainTable is the table whose rows follow from one another, by what its owner knows: the audit log. Triggers guard it.
const chainTable = "weir_audit"

// guard is a trigger on the chain's table, or the function that one calls.
type guard struct{ kind, name, text string }

var guardText = regexp.MustCompile(`(?ms)^CREATE (TRIGGER|FUNCTION) (weir_audit_\w+).*?(?:END|\$\$|\(\));$`)

// guardsOf are the guards as the migrations make them.
func (d *dialect) guardsOf() (guards []guard, err error) {
	steps, err := migrations(d.folder)
	for _, step := range steps {
		for _, m := range guardText.FindAllStringSubmatch(step.text, -1) {
			guards = append(guards, guard{m[1], m[2], strings.TrimSuffix(m[0], ";")})
		}
	}
	return guards, err
}

// CheckGuards finds a trigger of the chain's table that is missing, switched off or not what it was; "" is none.
func (d *database) CheckGuards(ctx context.Context) (fault string, err error) {
	guards, err := d.dialect.guardsOf()
	if err != nil {
		return "", err
	}
	rows, err := d.Read.QueryContext(ctx, d.dialect.guards)
	if err != nil {
		return "", fmt.Errorf("the triggers of the audit log: %w", err)
	}
	defer rows.Close()
	have := map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return "", err
		}
		have[name] = text
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	for _, g := range guards {
		switch text, there := have[g.name]; {
		case !there:
			return fmt.Sprintf("the %s %s of its table is missing or switched off", strings.ToLower(g.kind), g.name), nil
		case text != "" && !strings.Contains(g.text, text):
			return fmt.Sprintf("the %s %s of its table was replaced", strings.ToLower(g.kind), g.name), nil
		}
	}
	return "", nil
}

// RestoreGuards makes the guards as they were.
func (d *database) RestoreGuards(ctx context.Context, tx *sql.Tx) error {
	guards, err := d.dialect.guardsOf()
	if err != nil {
		return err
	}
	var statements []string
	for _, g := range slices.Backward(guards) { // triggers before the functions that they call
		statements = append(statements, fmt.Sprintf(d.dialect.dropGuard[g.kind], g.name))
	}
	for _, g := range guards {
		statements = append(statements, g.text)
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	return nil
}

// dropGuardFunctions drops what is left of the guards when their table is gone.
func (d *database) dropGuardFunctions(ctx context.Context, tx *sql.Tx) error {
	guards, err := d.dialect.guardsOf()
	if err != nil {
		return err
	}
	for _, g := range guards {
		if g.kind != "FUNCTION" { // triggers went with their table
			continue
		}
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(d.dialect.dropGuard[g.kind], g.name)); err != nil {
			return err
		}
	}
	return nil
}
