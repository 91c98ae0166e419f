{{/* The name of everything. */}}
{{- define "ccm.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The same by its name in Hetzner's chart, whose default of selectorLabels includes it. */}}
{{- define "hcloud-cloud-controller-manager.name" -}}
{{- include "ccm.name" . -}}
{{- end -}}

{{- define "ccm.selectorLabels" -}}
{{- $labels := dict -}}
{{- range $key, $value := .Values.selectorLabels -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $labels $key $value -}}{{- end -}}
{{- end -}}
{{- tpl (toYaml $labels) . -}}
{{- end -}}

{{- define "ccm.labels" -}}
{{- $labels := include "ccm.selectorLabels" . | fromYaml -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $labels "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{- toYaml $labels -}}
{{- end -}}

{{/* Whether monitors have to name the job: "true" or nothing. Rules and dashboard expect the name ccm, which is that of the
pods' label unless they are called otherwise. */}}
{{- define "ccm.namesJob" -}}
{{- if ne (toString (get (include "ccm.selectorLabels" . | fromYaml) "app.kubernetes.io/name")) "ccm" -}}true{{- end -}}
{{- end -}}

{{/* Its ServiceAccount, as a subject of a binding. */}}
{{- define "ccm.subject" -}}
- kind: ServiceAccount
  name: {{ include "ccm.name" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end -}}

{{/* Whether the pod has the node's network: "true" or nothing. */}}
{{- define "ccm.hostNetwork" -}}
{{- if kindIs "invalid" .Values.hostNetwork -}}
{{- if .Values.networking.enabled -}}true{{- end -}}
{{- else if .Values.hostNetwork -}}true
{{- end -}}
{{- end -}}
