package mesh

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"herdr-link/mcp"
)

// The tables of docs/mesh.md are those of the code.
func TestDocs(t *testing.T) {
	const file = "../docs/mesh.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for name, rows := range map[string][]tool{"tools": readTools(), "controller tools": controllerTools(), "handoff tools": handoffTools(), "lane tools": laneTools(), "worker tools": workerTools(), "verify tools": verifyTools(), "ledger tools": ledgerTools()} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
		before, rest, ok := strings.Cut(page, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for the %s", file, name)
		}
		page = before + begin + tables(rows) + end + after
	}
	golden(t, file, []byte(page))
}

func tables(rows []tool) string {
	var b strings.Builder
	b.WriteString("| tool | hints | arguments | `herdr` command | what it is for |\n|---|---|---|---|---|\n")
	for i := range rows {
		t := &rows[i]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", t.name, t.hints, t.names(), t.template(), t.description)
	}
	b.WriteString("\n| argument | of | what it is |\n|---|---|---|\n")
	var seen []string
	for i := range rows {
		for _, p := range rows[i].properties() {
			if key := p.Name + string(p.JSON()); !slices.Contains(seen, key) {
				seen = append(seen, key)
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Name, users(rows, key), words(p.Schema))
			}
		}
	}
	return b.String()
}

// properties are the arguments, with those of a list's items behind it.
func (t *tool) properties() (all []mcp.Property) {
	for _, a := range t.args {
		all = append(all, a.Property)
		if a.Items != nil {
			for _, p := range a.Items.Properties {
				p.Name = a.Name + "[]." + p.Name
				all = append(all, p)
			}
		}
	}
	return all
}

// users are the tools with exactly that argument.
func users(rows []tool, key string) string {
	var names []string
	for i := range rows {
		for _, p := range rows[i].properties() {
			if p.Name+string(p.JSON()) == key {
				names = append(names, strings.TrimPrefix(rows[i].name, "herdr_"))
			}
		}
	}
	return strings.Join(names, ", ")
}

// names lists the arguments; one with a question mark may be missing.
func (t *tool) names() string {
	var all []string
	for _, a := range t.args {
		name := "`" + a.Name + "`"
		if !a.Required {
			name += "?"
		}
		all = append(all, name)
	}
	if all == nil {
		return "–"
	}
	return strings.Join(all, ", ")
}

// words says what an argument is.
func words(s mcp.Schema) string {
	var w []string
	switch {
	case s.Enum != nil:
		w = append(w, "`"+strings.Join(s.Enum, "` `")+"`")
	case s.Min != nil && s.Max != nil:
		w = append(w, fmt.Sprintf("%s %v to %v", s.Type, *s.Min, *s.Max))
	case s.Min != nil:
		w = append(w, fmt.Sprintf("%s, %v or more", s.Type, *s.Min))
	case s.Rule != "":
		w = append(w, s.Rule)
	case s.Type == "boolean":
		w = append(w, "true or false")
	case s.Items != nil:
		w = append(w, fmt.Sprintf("%d to %d of them", s.MinItems, s.MaxItems))
	}
	if s.MaxLength > 0 {
		w = append(w, fmt.Sprintf("%d to %d characters", s.MinLength, s.MaxLength))
	}
	if s.Default != nil {
		w = append(w, fmt.Sprintf("default `%v`", s.Default))
	}
	if s.Description != "" {
		w = append(w, s.Description)
	}
	return strings.ReplaceAll(strings.Join(w, "; "), "|", `\|`)
}

// template is the command with the names of the arguments in it.
func (t *tool) template() string {
	if t.command == "" && !t.waits {
		return "–"
	}
	if t.command == "" {
		return "`agent list` again and again, then `agent read`"
	}
	text := t.command
	for _, a := range t.args {
		part := a.Name
		switch {
		case a.Name == argRegex:
			continue
		case a.Name == argMatch:
			part = "(--match match | --regex match)"
		case a.Type == "boolean":
			part = a.flag
		case a.flag != "":
			part = a.flag + " " + a.Name
		}
		if !a.Required && a.Default == nil {
			part = "[" + part + "]"
		}
		text += " " + part
	}
	return "`" + strings.ReplaceAll(strings.Join(append([]string{text}, t.tail...), " "), "|", `\|`) + "`"
}
