#!/bin/sh
# herdr-link hook
#
# The push policy for agents, and then the hook that Git would have run without
# it. This one script stands under the name of every hook. It asks only
# SHEPHERD_MODE and Git, never herdr-link; see docs/orchestration.md.
# "herdr-link hooks install" has put it here; uninstall takes it away.

set -u

# What the next hook gets is what Git gave to this one: variables are set in
# subshells, and the few that are not begin with herdr_link.

# deny REF REASON ends the push.
deny() {
	printf 'herdr-link: mode %s may not push %s: %s\n' "$SHEPHERD_MODE" "$1" "$2" >&2
	exit 1
}

zeros() {
	case $1 in '' | *[!0]*) return 1 ;; esac
}

# protected BRANCH REMOTE
protected() {
	case $1 in main | master) return 0 ;; esac
	[ "$(git symbolic-ref --quiet "refs/remotes/$2/HEAD" 2>/dev/null)" = "refs/remotes/$2/$1" ] && return 0
	names=$(git config --get-all orchestration.protectedBranch)
	[ $? -le 1 ] || return 0 # it cannot be read
	case $newline$names$newline in *"$newline$1$newline"*) return 0 ;; esac
	return 1
}

# plan REMOTE reads what is to be pushed, a line a ref: the local ref and its id,
# the remote ref and its id. It returns if all of it may be.
plan() {
	newline='
'
	unset GIT_CONFIG
	branch=$(git symbolic-ref --quiet HEAD) || deny HEAD 'HEAD is detached'
	case $branch in refs/heads/*) ;; *) deny "$branch" 'HEAD is on no branch' ;; esac
	! protected "${branch#refs/heads/}" "$1" || deny "$branch" 'the branch is protected'

	end=0 odd='' gone='' other='' renamed='' rewritten=''
	while [ "$end" = 0 ]; do
		from=''
		IFS=' ' read -r from id to old more || end=$? # 1: at the end, perhaps behind a last line without newline
		[ "$end" = 0 ] || [ -n "$from" ] || break
		case $id,$old in
		*[!0-9a-f,]* | ,* | *,) odd=yes ;;
		esac
		if [ -n "$more" ]; then # a local ref has no spaces
			renamed=${renamed:-$branch}
		elif zeros "$id"; then
			gone=${gone:-$to}
		elif [ "$to" != "$branch" ]; then
			other=${other:-$to}
		elif [ "$from" != "$branch" ] && [ "$from" != HEAD ]; then
			renamed=${renamed:-$from}
		elif [ -z "$odd$rewritten" ] && ! zeros "$old" &&
			! git --no-replace-objects merge-base --is-ancestor "$old" "$id" </dev/null 2>/dev/null; then
			rewritten=$to
		fi
	done
	[ -z "$gone" ] || deny "$gone" 'this would delete it'
	[ -z "$other" ] || deny "$other" "only $branch may be pushed"
	[ -z "$renamed" ] || deny "$renamed" 'only the current branch itself may be pushed'
	[ "$end" = 1 ] && [ -z "$odd" ] || deny "$branch" 'what Git says about it cannot be read'
	[ -z "$rewritten" ] || deny "$rewritten" 'this would rewrite its history'
}

# ours FILE: it is this script, of whatever version and by whatever path.
ours() {
	[ "$1" != "$0" ] || return 0
	[ -f "$1" ] && { read -r mark && read -r mark; } 2>/dev/null <"$1" && [ "$mark" = '# herdr-link hook' ]
}

# choose reads every value of core.hooksPath behind its scope, a line each, and
# prints the path of the hook that Git would have run, and an x.
choose() {
	sign=$(printf '\001')
	repo='' global='' system='' # with a + in front, for an empty value is one as well
	while IFS= read -r scope && IFS= read -r path; do
		case $path in *"$sign"*)
			path=$(printf '%s' "$path" | tr '\001' '\n' && printf x)
			path=${path%x}
			;;
		esac
		case $scope in
		worktree | local) repo=+$path ;;
		global) global=+$path ;;
		system) system=+$path ;;
		esac
	done
	name=${0##*/}
	if [ -n "$repo" ]; then
		dir=${repo#+}
	elif [ -n "$global" ] && ! ours "${global#+}/$name"; then
		dir=${global#+}
	elif [ -n "$global" ] && dir=$(git config --file "${global#+}/manifest" --type=path --get herdr-link.previous 2>/dev/null && printf x); then
		dir=${dir%?x}
	elif [ -n "$system" ]; then
		dir=${system#+}
	else
		dir=$(git rev-parse --git-common-dir 2>/dev/null && printf x) || return
		dir=${dir%?x}/hooks
	fi
	case $dir in -*) dir=./$dir ;; esac
	[ -f "$dir/$name" ] && [ -x "$dir/$name" ] && ! ours "$dir/$name" && printf '%sx' "$dir/$name"
}

# next_hook lists the settings for choose. A newline within one is told from
# those between them by another sign.
next_hook() {
	LC_ALL=C
	export LC_ALL
	unset GIT_CONFIG
	git config --null --show-scope --type=path --get-all core.hooksPath 2>/dev/null | tr '\n\000' '\001\n' | choose
}

if [ "${0##*/}" = pre-push ]; then
	case ${SHEPHERD_MODE-} in
	sheep-plan | sheep-build | review)
		read -r _ _ herdr_link_ref _
		cat >/dev/null
		deny "${herdr_link_ref:-anything}" 'only shepherds use remote repositories'
		;;
	plan)
		# The lines are for the next hook as well, byte by byte.
		herdr_link_lines=''
		trap 'set -- $?; [ -z "$herdr_link_lines" ] || rm -f "$herdr_link_lines"; exit "$1"' EXIT # mksh would forget it
		trap 'exit 1' HUP INT PIPE TERM
		herdr_link_lines=$(umask 077 && mktemp "${TMPDIR:-/tmp}/herdr-link.XXXXXX" 2>/dev/null) || deny anything 'no temporary file can be made'
		cat >"$herdr_link_lines" || deny anything 'its temporary file cannot be written'
		exec <"$herdr_link_lines"
		(LC_ALL=C && export LC_ALL && plan "${1-}") <"$herdr_link_lines" || exit 1
		rm -f "$herdr_link_lines"
		trap - EXIT HUP INT PIPE TERM
		;;
	esac
fi
herdr_link_hook=$(next_hook)
[ -n "$herdr_link_hook" ] || exit 0
exec "${herdr_link_hook%x}" "$@"
