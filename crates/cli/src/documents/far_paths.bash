# Paths at a far end, as for scp: ssh lists them, if it needs to ask nothing. Names are quoted for both shells.
_sealane_far() {
    local line=${COMP_LINE:0:COMP_POINT} word host path quoted entry
    word=${line##*[[:space:]]}
    case $word in
        [a-z]*://* | /* | ./* | ../* | -*) return 1 ;;
        *?:*) ;;
        *) return 1 ;;
    esac
    host=${word%%:*} path=${word#*:}
    [[ $host == */* ]] && return 1
    # What was completed before is quoted for this shell.
    path=${path//\\/}
    printf -v quoted '%q' "$path"
    [[ $path == "~/"* ]] && printf -v quoted '~/%q' "${path#"~/"}"
    [[ $path == "" || $path == "~/" ]] && quoted=$path
    COMPREPLY=()
    while IFS= read -r entry; do
        case $path in
            "~/"*) printf -v entry '~/%q' "${entry#*/./}" ;;
            *) printf -v entry '%q' "$entry" ;;
        esac
        COMPREPLY+=("$entry")
    done < <(_sealane_far_list "$host" "$quoted")
    # Where a colon does not end a word, the whole word is replaced.
    [[ $COMP_WORDBREAKS == *:* ]] || COMPREPLY=("${COMPREPLY[@]/#/$host:}")
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} != */ ]] || compopt -o nospace 2>/dev/null
    return 0
}

# Entries of host $1 that begin with the quoted $2, folders with a slash at their end; below the home directory after /./.
_sealane_far_list() {
    local script="ls -1dpL -- $2* 2>/dev/null"
    [[ $2 == "~/"* ]] && script="ls -1dpL -- ~/./${2#"~/"}* 2>/dev/null"
    "${SEALANE_SSH:-ssh}" -o BatchMode=yes -o ConnectTimeout=5 -- "$1" "$script" 2>/dev/null </dev/null
}

_sealane_product() {
    [[ ${COMP_WORDS[1]} == cp || ${COMP_WORDS[1]} == copy ]] && _sealane_far && return
    _sealane_here "$@"
}
