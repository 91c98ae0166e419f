{{/* A scalar as it stands in values: a large whole number is no power of ten. */}}
{{- define "ccm.scalar" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{/* The value of a flag: that of args, or the default. dict root, name, default */}}
{{- define "ccm.flag" -}}
{{- $value := index .root.Values.args .name -}}
{{- if kindIs "invalid" $value -}}{{ .default }}{{- else -}}{{ include "ccm.scalar" $value }}{{- end -}}
{{- end -}}

{{/* Whether a flag is on: "true" or nothing. A flag without a value is. dict root, name, default */}}
{{- define "ccm.isOn" -}}
{{- $value := include "ccm.flag" . -}}
{{- if not (has $value (list "0" "f" "F" "false" "FALSE" "False")) -}}true{{- end -}}
{{- end -}}

{{/* The secure port; nothing when it is off. */}}
{{- define "ccm.securePort" -}}
{{- $port := include "ccm.flag" (dict "root" . "name" "secure-port" "default" "10258") -}}
{{- if ne $port "0" -}}{{ $port }}{{- end -}}
{{- end -}}

{{/* The one address on which the secure port listens; nothing when it listens on all. */}}
{{- define "ccm.bindAddress" -}}
{{- $address := include "ccm.flag" (dict "root" . "name" "bind-address" "default" "") | trim -}}
{{- if not (has $address (list "" "0.0.0.0" "::")) -}}{{ $address }}{{- end -}}
{{- end -}}

{{/* Whether the secure port listens on loopback alone: "true" or nothing. */}}
{{- define "ccm.isLoopback" -}}
{{- $address := include "ccm.bindAddress" . -}}
{{- if or (hasPrefix "127." $address) (eq $address "::1") -}}true{{- end -}}
{{- end -}}

{{/* The options of `ccm status` in the pod: where it asks, and whose certificate it accepts, if not by default. */}}
{{- define "ccm.statusOptions" -}}
{{- $address := include "ccm.bindAddress" . -}}
{{- $host := $address | default "127.0.0.1" -}}
{{- if contains ":" $host -}}{{- $host = printf "[%s]" $host -}}{{- end -}}
{{- $server := printf "%s:%s" $host (include "ccm.securePort" .) -}}
{{- if ne $server "127.0.0.1:10258" }} --server=https://{{ $server }}{{ end -}}
{{- if and $address (not (include "ccm.isLoopback" .)) }} --ca-file=FILE{{ end -}}
{{- end -}}

{{/* Whether --controllers has this one: the first entry that names it counts. dict list, name, alias */}}
{{- define "ccm.isListed" -}}
{{- $hit := "" -}}
{{- range .list -}}
{{- $entry := trim . -}}
{{- if not $hit -}}
{{- if has $entry (list $.name $.alias) -}}{{- $hit = "on" -}}
{{- else if has $entry (list (printf "-%s" $.name) (printf "-%s" $.alias)) -}}{{- $hit = "off" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if or (eq $hit "on") (and (eq $hit "") (has "*" .list)) -}}true{{- end -}}
{{- end -}}

{{/* The controllers that run, as a JSON list: by --controllers, and where flags say that there is nothing to do for one. */}}
{{- define "ccm.controllers" -}}
{{- $listed := splitList "," (include "ccm.flag" (dict "root" . "name" "controllers" "default" "*")) -}}
{{- $allocates := include "ccm.isOn" (dict "root" . "name" "allocate-node-cidrs" "default" (toString .Values.networking.enabled)) -}}
{{- $hasRange := or .Values.networking.enabled (include "ccm.flag" (dict "root" . "name" "cluster-cidr" "default" "")) -}}
{{- $routes := and $hasRange (include "ccm.isOn" (dict "root" . "name" "configure-cloud-routes" "default" "true")) -}}
{{- $all := list
  (dict "name" "cloud-node-controller" "alias" "cloud-node" "works" true)
  (dict "name" "cloud-node-lifecycle-controller" "alias" "cloud-node-lifecycle" "works" true)
  (dict "name" "service-lb-controller" "alias" "service" "works" true)
  (dict "name" "node-route-controller" "alias" "route" "works" $routes)
  (dict "name" "node-ipam-controller" "alias" "nodeipam" "works" $allocates) -}}
{{- $running := list -}}
{{- range $all -}}
{{- if and .works (include "ccm.isListed" (dict "list" $listed "name" .name "alias" .alias)) -}}
{{- $running = append $running .name -}}
{{- end -}}
{{- end -}}
{{- toJson $running -}}
{{- end -}}

{{/* Whether there is an election: "true" or nothing. */}}
{{- define "ccm.elects" -}}
{{- include "ccm.isOn" (dict "root" . "name" "leader-elect" "default" "true") -}}
{{- end -}}

{{/* Whether each controller has an account of its own: "true" or nothing. Where nothing is changed, all read as the pod. */}}
{{- define "ccm.hasIdentities" -}}
{{- if eq (include "ccm.flag" (dict "root" . "name" "mode" "default" "enforce")) "enforce" -}}
{{- include "ccm.isOn" (dict "root" . "name" "use-service-account-credentials" "default" "false") -}}
{{- end -}}
{{- end -}}

{{/* Everything after `run`. */}}
{{- define "ccm.arguments" -}}
- run
{{- if .Values.config }}
- --config=/etc/ccm/ccm.yaml
{{- end }}
{{- if kindIs "invalid" (index .Values.args "compiled-cache-dir") }}
- --compiled-cache-dir=/var/cache/ccm
{{- end }}
{{- range $name, $value := .Values.args }}
{{- if not (kindIs "invalid" $value) }}
{{- $text := include "ccm.scalar" $value }}
- {{ printf "--%s%s" $name (ternary "" (printf "=%s" $text) (eq $text "")) | quote }}
{{- end }}
{{- end }}
{{- if .Values.networking.enabled }}
{{- if kindIs "invalid" (index .Values.args "allocate-node-cidrs") }}
- --allocate-node-cidrs=true
{{- end }}
- --cluster-cidr={{ .Values.networking.clusterCIDR }}
{{- end }}
{{- end -}}

{{/* What fits together in no way; the schema has seen each value alone. */}}
{{- define "ccm.check" -}}
{{- if and .Values.config (not (kindIs "invalid" (index .Values.args "config"))) -}}
{{- fail "config and args.config both name the configuration: remove one of them" -}}
{{- end -}}
{{- if and .Values.networking.enabled (not (kindIs "invalid" (index .Values.args "cluster-cidr"))) -}}
{{- fail "networking.enabled sets --cluster-cidr: remove args.cluster-cidr, or set networking.enabled=false" -}}
{{- end -}}
{{- if and .Values.networking.enabled (not (and .Values.networking.clusterCIDR .Values.networking.network)) -}}
{{- fail "networking.enabled needs networking.clusterCIDR and networking.network" -}}
{{- end -}}
{{- $selected := include "ccm.selectorLabels" . | fromYaml -}}
{{- range $key, $value := .Values.podLabels -}}
{{- if and (hasKey $selected $key) (ne $value (get $selected $key)) -}}
{{- fail (printf "podLabels.%s differs from selectorLabels, by which the pods are found: remove it from podLabels" $key) -}}
{{- end -}}
{{- end -}}
{{- $several := or (eq .Values.kind "DaemonSet") (gt (int .Values.replicaCount) 1) -}}
{{- if and $several (not (include "ccm.elects" .)) -}}
{{- fail "args.leader-elect is off, and there can be more than one pod: they would all act" -}}
{{- end -}}
{{- with .Values.strategy -}}
{{- if and (eq $.Values.kind "Deployment") (not (include "ccm.elects" $)) (ne (toString (get . "type")) "Recreate") -}}
{{- fail "args.leader-elect is off, and strategy lets the new pod begin before the old one has ended: both would act. Set strategy.type=Recreate, or remove strategy" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.networkPolicy.create (include "ccm.hostNetwork" .) -}}
{{- fail "networkPolicy.create has no effect on a pod with the node's network: set it to false, or hostNetwork=false" -}}
{{- end -}}
{{- if and (include "ccm.securePort" .) (include "ccm.isLoopback" .) (not (include "ccm.hostNetwork" .)) -}}
{{- fail "args.bind-address is the pod's own loopback, where no probe of the kubelet arrives: remove it, or set hostNetwork=true" -}}
{{- end -}}
{{- $monitor := .Values.monitoring.podMonitor -}}
{{- $isUnreachable := or (not (include "ccm.securePort" .)) (include "ccm.isLoopback" .) -}}
{{- if and $monitor.enabled $monitor.secure $isUnreachable -}}
{{- fail "monitoring.podMonitor.secure scrapes the secure port, and args.secure-port is 0 or args.bind-address is loopback" -}}
{{- end -}}
{{- if and .Values.monitoring.serviceMonitor.enabled $isUnreachable -}}
{{- fail "monitoring.serviceMonitor scrapes the secure port, and args.secure-port is 0 or args.bind-address is loopback" -}}
{{- end -}}
{{- if and .Values.monitoring.serviceMonitor.enabled $monitor.enabled -}}
{{- fail "monitoring.podMonitor and monitoring.serviceMonitor scrape the same pods: enable one of them" -}}
{{- end -}}
{{- if and .Values.providerObjects.secrets (not (include "ccm.isOn" (dict "root" . "name" "enable-provider-objects" "default" "false"))) -}}
{{- fail "providerObjects.secrets are for objects that configure providers: set args.enable-provider-objects, or remove them" -}}
{{- end -}}
{{- if and .Values.configFiles (not .Values.config) -}}
{{- fail "configFiles are mounted beside the file that config makes, and config is empty" -}}
{{- end -}}
{{- if hasKey (.Values.configFiles | default dict) "ccm.yaml" -}}
{{- fail "configFiles cannot have ccm.yaml: config makes it" -}}
{{- end -}}
{{- $only := include "ccm.flag" (dict "root" . "name" "cloud-provider" "default" "") -}}
{{- if and .Values.config $only -}}
{{- $others := list -}}
{{- range .Values.config.providers -}}
{{- if ne (toString .name) $only -}}{{- $others = append $others (toString .name) -}}{{- end -}}
{{- end -}}
{{- with $others -}}
{{- fail (printf "args.cloud-provider=%s runs no other provider of config, which has %s: set args.cloud-provider to null, and all of them run" $only (join ", " .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
