package git

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"herdr-link/mesh/fault"
)

func TestScopes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"dir/sub", "real"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "real", "dir/link": "../file", "dangling": "none"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Skip(err)
		}
	}
	many := make([]string, maxScopes+1)
	for i := range many {
		many[i] = fmt.Sprint("f", i)
	}
	one := []string{"a"}
	for name, tc := range map[string]struct {
		owned, locked []string
		fold          bool
		want          string // both lists
		code          string
	}{
		"as they are":             {owned: []string{"b/c", "a"}, locked: []string{"x", "d"}, want: "[a b/c] [d x]"},
		"cleaned":                 {owned: []string{"./b//c/", "b/./c", "b/c", "././a/."}, locked: []string{}, want: "[a b/c] []"},
		"dots in names":           {owned: []string{"..a", "a..", "...", ".git hub", "a/..b"}, want: "[... ..a .git hub a.. a/..b] []"},
		"odd but fine":            {owned: []string{" ", "ünï", "-x", "a:b", `q"`}, want: "[  -x a:b q\" ünï] []"},
		"sorted by bytes":         {owned: []string{"é", "z", "a/b", "a-b", "B"}, want: "[B a-b a/b z é] []"},
		"200 bytes":               {owned: []string{strings.Repeat("x", 200)}, want: "[" + strings.Repeat("x", 200) + "] []"},
		"existing ones":           {owned: []string{"dir/sub", "file", "file/below", "dir/none/x"}, locked: []string{"real"}, want: "[dir/none/x dir/sub file file/below] [real]"},
		"500":                     {owned: many[:maxScopes], locked: []string{"x"}, want: "ok"},
		"none":                    {code: "SCOPE_INVALID"},
		"501":                     {owned: many, code: "SCOPE_INVALID"},
		"501 locked":              {owned: []string{"x"}, locked: many, code: "SCOPE_INVALID"},
		"empty":                   {owned: []string{""}, code: "SCOPE_INVALID"},
		"201 bytes":               {owned: []string{strings.Repeat("x", 201)}, code: "SCOPE_INVALID"},
		"201 bytes before":        {owned: []string{strings.Repeat("./", 100) + "x"}, code: "SCOPE_INVALID"},
		"backslash":               {owned: []string{`a\b`}, code: "SCOPE_INVALID"},
		"star":                    {owned: []string{"a*"}, code: "SCOPE_INVALID"},
		"question mark":           {owned: []string{"a?"}, code: "SCOPE_INVALID"},
		"brackets":                {owned: []string{"a["}, code: "SCOPE_INVALID"},
		"brackets closed":         {owned: []string{"a]"}, code: "SCOPE_INVALID"},
		"braces":                  {owned: []string{"a{"}, code: "SCOPE_INVALID"},
		"braces closed":           {owned: []string{"a}"}, code: "SCOPE_INVALID"},
		"NUL":                     {owned: []string{"a\x00"}, code: "SCOPE_INVALID"},
		"a line feed":             {owned: []string{"new\nline"}, code: "SCOPE_INVALID"},
		"DEL":                     {owned: []string{"a"}, locked: []string{"b\x7f"}, code: "SCOPE_INVALID"},
		"C1":                      {owned: []string{"a\u0085"}, code: "SCOPE_INVALID"},
		"a line separator":        {owned: []string{"a\u2028"}, code: "SCOPE_INVALID"},
		"a paragraph separator":   {owned: []string{"a\u2029"}, code: "SCOPE_INVALID"},
		"not UTF-8":               {owned: []string{"a\xff"}, code: "SCOPE_INVALID"},
		"absolute":                {owned: []string{"/a"}, code: "SCOPE_INVALID"},
		"upwards":                 {owned: []string{"a/../b"}, code: "SCOPE_INVALID"},
		"outside":                 {owned: []string{".."}, code: "SCOPE_INVALID"},
		"upwards at the end":      {owned: []string{"a/.."}, code: "SCOPE_INVALID"},
		"everything":              {owned: []string{"."}, code: "SCOPE_INVALID"},
		"everything, longer":      {owned: []string{"./."}, code: "SCOPE_INVALID"},
		"a name that is too long": {owned: []string{"dir/" + strings.Repeat("x", 190)}, want: "[dir/" + strings.Repeat("x", 190) + "] []"},
		"locked and wrong":        {owned: one, locked: []string{"b*"}, code: "SCOPE_INVALID"},
		"a symlink":               {owned: []string{"link"}, code: "SCOPE_SYMLINK"},
		"through one":             {owned: []string{"link/x"}, code: "SCOPE_SYMLINK"},
		"one below":               {owned: []string{"dir/link"}, code: "SCOPE_SYMLINK"},
		"one to nowhere":          {owned: []string{"dangling/x"}, code: "SCOPE_SYMLINK"},
		"one that is locked":      {owned: one, locked: []string{"link"}, code: "SCOPE_SYMLINK"},
		"owned and locked":        {owned: one, locked: one, code: "SCOPE_LOCKED"},
		"owned below locked":      {owned: []string{"z", "a/b"}, locked: one, code: "SCOPE_LOCKED"},
		"locked below owned":      {owned: one, locked: []string{"a/b/c"}, code: "SCOPE_LOCKED"},
		"beside each other":       {owned: []string{"a/b"}, locked: []string{"a/bc", "a/c"}, want: "[a/b] [a/bc a/c]"},
		"in other case":           {owned: []string{"A"}, locked: one, want: "[A] [a]"},
		"in other case, folded":   {owned: []string{"Ä/b"}, locked: []string{"ä"}, fold: true, code: "SCOPE_LOCKED"},
	} {
		owned, locked, err := Scopes(root, tc.owned, tc.locked, tc.fold)
		if fault.Code(err) != tc.code || tc.code == "" && err != nil {
			t.Errorf("%s: %v, not %q", name, err, tc.code)
			continue
		}
		if got := fmt.Sprint(owned, locked); err == nil && tc.want != "ok" && got != fmt.Sprint(tc.want) {
			t.Errorf("%s: %s, not %s", name, got, tc.want)
		}
		if err == nil && (owned == nil || locked == nil) {
			t.Errorf("%s: a nil list would be null in a record", name)
		}
	}
	if owned, _, err := Scopes(root, []string{"./a/"}, nil, false); err != nil || owned[0] != "a" {
		t.Error("the caller's list")
	}
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b         string
		want, folded bool
	}{
		{"a", "a", true, true}, {"a", "a/b", true, true}, {"a/b", "a/b/c/d", true, true}, {"a/b", "a/bc", false, false},
		{"a/b", "a/c", false, false}, {"ab", "a", false, false}, {"a/b", "b", false, false}, {"a-b", "a/b", false, false},
		{"A", "a/b", false, true}, {"a/B", "a/b/c", false, true}, {"É/x", "é", false, true}, {"K", "\u212a", false, true}, {"A/bc", "a/b", false, false},
	} {
		for _, pair := range [][2]string{{tc.a, tc.b}, {tc.b, tc.a}} {
			if Overlap(pair[0], pair[1], false) != tc.want || Overlap(pair[0], pair[1], true) != tc.folded {
				t.Errorf("%q", pair)
			}
		}
	}
}

func TestBeside(t *testing.T) {
	t.Parallel()
	old := Lane{"/r/.git", "/w1", "one", []string{"a/b", "src"}, []string{"docs"}}
	lane := func(change func(*Lane)) Lane {
		l := Lane{"/r/.git", "/w2", "two", []string{"lib"}, []string{"x"}}
		change(&l)
		return l
	}
	for name, tc := range map[string]struct {
		lane         Lane
		code, folded string
	}{
		"apart":                      {lane(func(l *Lane) {}), "", ""},
		"its worktree":               {lane(func(l *Lane) { l.Worktree = "/w1" }), "LANE_RETAINED", "LANE_RETAINED"},
		"a worktree inside":          {lane(func(l *Lane) { l.Worktree = "/w1/w2" }), "LANE_RETAINED", "LANE_RETAINED"},
		"a worktree beside":          {lane(func(l *Lane) { l.Worktree = "/w10" }), "", ""},
		"inside, of another":         {lane(func(l *Lane) { l.CommonDir, l.Worktree = "/s/.git", "/w1/x" }), "LANE_RETAINED", "LANE_RETAINED"},
		"its branch":                 {lane(func(l *Lane) { l.Branch = "one" }), "LANE_RETAINED", "LANE_RETAINED"},
		"its branch, in capitals":    {lane(func(l *Lane) { l.Branch = "ONE" }), "", "LANE_RETAINED"},
		"its branch elsewhere":       {lane(func(l *Lane) { l.CommonDir, l.Branch = "/s/.git", "one" }), "", ""},
		"its worktree elsewhere":     {lane(func(l *Lane) { l.CommonDir, l.Worktree = "/s/.git", "/w1" }), "LANE_RETAINED", "LANE_RETAINED"},
		"its scope elsewhere":        {lane(func(l *Lane) { l.CommonDir, l.Owned = "/s/.git", []string{"src"} }), "", ""},
		"its scope":                  {lane(func(l *Lane) { l.Owned = []string{"lib", "src"} }), "SCOPE_OVERLAP", "SCOPE_OVERLAP"},
		"above its scope":            {lane(func(l *Lane) { l.Owned = []string{"a"} }), "SCOPE_OVERLAP", "SCOPE_OVERLAP"},
		"below its scope":            {lane(func(l *Lane) { l.Owned = []string{"a/b/c"} }), "SCOPE_OVERLAP", "SCOPE_OVERLAP"},
		"beside its scope":           {lane(func(l *Lane) { l.Owned = []string{"a/bc", "s"} }), "", ""},
		"its scope in capitals":      {lane(func(l *Lane) { l.Owned = []string{"SRC/x"} }), "", "SCOPE_OVERLAP"},
		"what it has locked":         {lane(func(l *Lane) { l.Owned = []string{"docs/x"} }), "SCOPE_LOCKED", "SCOPE_LOCKED"},
		"a lock on what it owns":     {lane(func(l *Lane) { l.Locked = []string{"src/y"} }), "SCOPE_LOCKED", "SCOPE_LOCKED"},
		"a lock on what it locked":   {lane(func(l *Lane) { l.Locked = []string{"docs"} }), "", ""},
		"overlap before the lock":    {lane(func(l *Lane) { l.Owned, l.Locked = []string{"docs", "src"}, []string{"a"} }), "SCOPE_OVERLAP", "SCOPE_OVERLAP"},
		"the repository in capitals": {lane(func(l *Lane) { l.CommonDir, l.Branch = "/R/.git", "one" }), "", "LANE_RETAINED"},
	} {
		for fold, code := range map[bool]string{false: tc.code, true: tc.folded} {
			if err := tc.lane.Beside(old, fold); fault.Code(err) != code || code == "" && err != nil {
				t.Errorf("%s, folded %t: %v", name, fold, err)
			}
		}
	}
}

func TestBesideAround(t *testing.T) {
	t.Parallel()
	err := Lane{"/r", "/a", "one", []string{"x"}, nil}.Beside(Lane{"/r", "/a/b", "two", []string{"y"}, nil}, false)
	if fault.Code(err) != "LANE_RETAINED" {
		t.Errorf("a worktree around another: %v", err)
	}
}

// covered is the model: all paths of a small world that are one of the scopes or
// below it.
func covered(world, scopes []string, fold bool) map[string]bool {
	set := map[string]bool{}
	for _, p := range world {
		for _, s := range scopes {
			q := p
			if fold {
				q, s = strings.ToLower(q), strings.ToLower(s)
			}
			if q == s || strings.HasPrefix(q, s+"/") {
				set[q] = true
			}
		}
	}
	return set
}

func meet(a, b map[string]bool) bool {
	for p := range a {
		if b[p] {
			return true
		}
	}
	return false
}

// Two scopes may not be shared exactly when there is a path that both cover.
func TestScopesModel(t *testing.T) {
	t.Parallel()
	var world []string // four levels; scopes have three, so that there is always something below
	level := []string{""}
	for range 4 {
		var next []string
		for _, p := range level {
			for _, name := range []string{"a", "b", "bc", "B"} {
				next = append(next, path.Join(p, name))
			}
		}
		world = append(world, next...)
		level = next
	}
	root := t.TempDir()
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	spell := func(s string) string {
		switch random.IntN(6) {
		case 0:
			return "./" + s
		case 1:
			return s + "/"
		case 2:
			return strings.Replace(s, "/", "//", 1)
		case 3:
			return strings.Replace(s, "/", "/./", 1) + "/."
		}
		return s
	}
	draw := func(n int) (scopes, spelt []string) {
		for range n {
			s := world[random.IntN(4+16+64)]
			scopes, spelt = append(scopes, s), append(spelt, spell(s))
		}
		slices.Sort(scopes)
		return slices.Compact(scopes), spelt
	}
	codes := map[string]int{}
	for range 3000 {
		fold := random.IntN(2) == 0
		a, b := world[random.IntN(84)], world[random.IntN(84)]
		if want := meet(covered(world, []string{a}, fold), covered(world, []string{b}, fold)); Overlap(a, b, fold) != want {
			t.Fatalf("%q and %q, folded %t: not %t", a, b, fold, want)
		}
		var lanes [2]Lane
		valid := true
		for i := range lanes {
			owned, spelt := draw(1 + random.IntN(2))
			locked, spelt2 := draw(random.IntN(3))
			code := ""
			if meet(covered(world, owned, fold), covered(world, locked, fold)) {
				code, valid = "SCOPE_LOCKED", false
			}
			o, l, err := Scopes(root, spelt, spelt2, fold)
			if fault.Code(err) != code || err == nil && (!slices.Equal(o, owned) || !slices.Equal(l, locked)) {
				t.Fatalf("%q and %q, folded %t: %q, %q, %v; not %q, %q, %q", spelt, spelt2, fold, o, l, err, owned, locked, code)
			}
			lanes[i] = Lane{"/r", fmt.Sprint("/w", i), fmt.Sprint(i), o, l}
		}
		if !valid {
			continue
		}
		cover := func(scopes []string) map[string]bool { return covered(world, scopes, fold) }
		code := ""
		switch ours, theirs := lanes[0], lanes[1]; {
		case meet(cover(ours.Owned), cover(theirs.Owned)):
			code = "SCOPE_OVERLAP"
		case meet(cover(ours.Owned), cover(theirs.Locked)), meet(cover(ours.Locked), cover(theirs.Owned)):
			code = "SCOPE_LOCKED"
		}
		codes[code]++
		if err := lanes[0].Beside(lanes[1], fold); fault.Code(err) != code {
			t.Fatalf("%+v, folded %t: %v, not %q", lanes, fold, err, code)
		}
	}
	for _, code := range []string{"", "SCOPE_OVERLAP", "SCOPE_LOCKED"} {
		if codes[code] < 50 {
			t.Errorf("%q came out %d times alone", code, codes[code])
		}
	}
}

// What is accepted is one path inside the worktree, always written in one way.
func FuzzScope(f *testing.F) {
	for _, s := range []string{"a", "./a/b//c/", "..", "a/../b", "...", ".", "/", "a\x00", "a\\b", "*", "\xff", "", "a/./.", strings.Repeat("a/", 101), "ä/\u212a", "-", " / "} {
		f.Add(s, "a/b")
	}
	f.Fuzz(func(t *testing.T, s, other string) {
		c, err := Scope(s)
		if err != nil {
			if fault.Code(err) != "SCOPE_INVALID" {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if again, err := Scope(c); again != c || err != nil {
			t.Errorf("%q is %q, and that is %q, %v", s, c, again, err)
		}
		if len(c) > len(s) || c == "." || !filepath.IsLocal(c) || path.Join("/r", c) != "/r/"+c || path.Join("/r", s) != "/r/"+c {
			t.Errorf("%q is %q", s, c)
		}
		if !Overlap(c, c, false) {
			t.Errorf("%q does not overlap itself", c)
		}
		if o, err := Scope(other); err == nil {
			plain, folded := Overlap(c, o, false), Overlap(c, o, true)
			if plain != Overlap(o, c, false) || folded != Overlap(o, c, true) || plain && !folded ||
				plain != (c == o || strings.HasPrefix(c, o+"/") || strings.HasPrefix(o, c+"/")) {
				t.Errorf("%q and %q: %t, %t", c, o, plain, folded)
			}
		}
	})
}
